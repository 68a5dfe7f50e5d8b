"""What the attacks share: the operator's own policies."""

from __future__ import annotations

import pytest

from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.load import Policies, load


@pytest.fixture(scope="session")
def policies() -> Policies:
    return load(policy_directory())
