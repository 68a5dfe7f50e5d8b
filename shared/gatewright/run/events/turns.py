"""Turns of roles: in which state each role receives its task and answers it."""

from __future__ import annotations

from gatewright.run.state import Run, TaskRole
from gatewright.run.states import State

_STATES: dict[TaskRole, State] = {"pm": "S0", "techlead": "S1", "worker": "S2", "reviewer": "S3", "testrunner": "S4"}


def is_turn_of(run: Run, role: TaskRole) -> bool:
    """Return whether the role may be working.

    A test runner may work beside the reviewer where the run's policy permits that.
    """
    together = role == "testrunner" and run.judges_together and not run.candidates
    if not run.kind.asks(role):
        return False
    return run.state == _STATES[role] or (together and (run.parked_from or run.state) == "S3")


def why_no_answer(run: Run, role: TaskRole, task_id: str | None) -> str:
    """Return why an answer of a serial role is out of turn; empty when it is in turn.

    Args:
        run: the run.
        role: the answering role.
        task_id: the task in the answer; None when it names none.
    """
    task = run.running(role)
    if task is None or not is_turn_of(run, role):
        return f"the {role} was not at work"
    if task_id not in {None, task.task_id}:
        return f"the {role} was asked for {task.task_id}, and this is about {task_id}"
    return ""


def role_of_task(run: Run, task_id: str | None) -> str | None:
    """Return the role of a task; None for an unknown task."""
    task = run.tasks.get(task_id or "")
    return task.role if task is not None else None
