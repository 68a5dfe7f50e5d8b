"""What the attacks share: the operator's own policies."""

from __future__ import annotations

import pytest

from gatewright.services.gatekeeper.policies.load import Policies
from tests.gatekeeper.contexts import delivered_policies


@pytest.fixture(scope="session")
def policies() -> Policies:
    return delivered_policies()
