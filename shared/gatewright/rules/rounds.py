"""How often a run may turn to fixing, and for which reasons."""

from __future__ import annotations

from gatewright.contracts import TaskContract
from gatewright.worker_role import ASKED_ANEW, answers

#: Failed gates that another round of fixing may cure (specification 7: blocking review or failed tests).
CURABLE = frozenset({"hidden_tests_failed", "review_failed", "tests_failed"})


def most_attempts(contract: TaskContract) -> int:
    """How many attempts there may be: as the contract allows, and as the executor has answers, where it is not asked anew."""
    allowed, executor = contract.timeout_retry.max_retries + 1, contract.executor
    if executor is None:
        return 0
    return allowed if executor.kind in ASKED_ANEW else min(allowed, len(answers(executor)))
