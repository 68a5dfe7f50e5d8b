"""The base of all events: what every event answers about itself."""

from __future__ import annotations

from typing import ClassVar

from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.vocabulary import Document
from gatewright.run.state import Run
from gatewright.run.states import Level


class RunEvent(Document, frozen=True):
    """One event of a run: its fields, when it is legal (``may_follow``), and what it changes (``apply``).

    The fields are the payload of an ``orchestrator_event.v1``. The decider appends no event to which ``may_follow`` objects;
    ``verify`` folds a bundle's events with the same two methods. In a run with several candidates, an event about one of them
    receives the run as that candidate sees it (``Run.seen_from``).
    """

    #: The event's name on the wire.
    event_type: ClassVar[str]
    #: Whether the event may come after the run's last state.
    after_end: ClassVar[bool] = False
    #: The level of the event's envelope, where it is always the same.
    level: ClassVar[Level] = "INFO"
    #: The role that the event's envelope names, where it is always the same; None where the gatekeeper acts on its own state.
    role_label: ClassVar[str | None] = "gatekeeper"

    def may_follow(self, run: Run) -> str:
        """Why this event is illegal for ``run`` as it stands; empty when it is legal."""
        del run
        return ""

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """The run after this event; ``record`` is the envelope with time and place in the chain.

        Raises MalformedError (``bad_event``) when the event names something that the run does not have.
        """
        del record
        return run

    def of_candidate(self, run: Run) -> int:
        """The number of the candidate that this event is about; 0 when it is about the whole run."""
        del run
        return 0

    def disqualifies(self) -> str:
        """The reason code with which this event puts its candidate out; empty when it does not."""
        return ""

    def of_task(self) -> str | None:
        """The task id that the event's envelope carries."""
        return None

    def severity(self, run: Run) -> Level:
        """The level of the event's envelope."""
        del run
        return self.level

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        """The role that the event's envelope names."""
        del run, task_id
        return self.role_label
