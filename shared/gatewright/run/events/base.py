"""Base class of all events, and the turns of roles: in which state each role receives its task and answers it."""

from __future__ import annotations

from typing import ClassVar

from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.vocabulary import Document
from gatewright.run.state import Run, TaskRole
from gatewright.run.states import Level, State


class RunEvent(Document, frozen=True):
    """One event of a run: its fields, when it is legal (``may_follow``), and what it changes (``apply``).

    The fields are the payload of an ``orchestrator_event.v1``. The decider appends no event to which ``may_follow`` objects;
    ``verify`` folds a bundle's events with the same two methods. In a run with several candidates, an event about one of them
    receives the run as that candidate sees it (``Run.seen_from``).
    """

    #: The event's name on the wire.
    event_type: ClassVar[str]
    #: Whether the event is legal after the run's last state.
    after_end: ClassVar[bool] = False
    #: Level of the event's envelope, where it is fixed.
    level: ClassVar[Level] = "INFO"
    #: Role in the event's envelope, where it is fixed; None where the gatekeeper acts on its own state.
    role_label: ClassVar[str | None] = "gatekeeper"

    def may_follow(self, run: Run) -> str:
        """Return why this event is illegal for ``run``; empty when it is legal."""
        del run
        return ""

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Return the run after this event.

        Args:
            run: the run before it.
            record: the envelope with time and place in the chain.

        Raises:
            MalformedError: the event names something that the run does not have (``bad_event``).
        """
        del record
        return run

    def of_candidate(self, run: Run) -> int:
        """Return the candidate that this event is about; 0 for the whole run."""
        del run
        return 0

    def disqualifies(self) -> str:
        """Return the reason code with which this event eliminates its candidate; empty when it does not."""
        return ""

    def of_task(self) -> str | None:
        """Return the task id in the event's envelope."""
        return None

    def severity(self, run: Run) -> Level:
        """Return the level of the event's envelope."""
        del run
        return self.level

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        """Return the role in the event's envelope."""
        del run, task_id
        return self.role_label


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
