"""How often a run may turn to fixing, and for which reasons."""

from __future__ import annotations

from gatewright.contracts import TaskContract
from gatewright.worker_role import answers

#: Failed gates that another round of fixing may cure (specification 7: blocking review or failed tests).
CURABLE = frozenset({"hidden_tests_failed", "review_failed", "tests_failed"})


def answers_of(contract: TaskContract) -> int:
    """How many attempts the contract's executor has an answer for."""
    return len(answers(contract.executor)) if contract.executor is not None else 0


def most_attempts(contract: TaskContract) -> int:
    """How many attempts there may be: as the contract allows, and as the executor has answers."""
    return min(contract.timeout_retry.max_retries + 1, answers_of(contract))
