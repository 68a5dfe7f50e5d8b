"""A role with a runner, on a bus in memory."""

from __future__ import annotations

import pytest

from tests.tasks.role_at_work import RoleAtWork


@pytest.fixture
def role() -> RoleAtWork:
    return RoleAtWork()
