"""History of an ended run, with all records that its bundle contains. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from gatewright.contracts import OrchestratorEvent, Transition
from gatewright.errors import MalformedError
from gatewright.rules.gate_evidence import POLICIES
from gatewright.run import events as e
from gatewright.run.history import FollowedRun, follow_all
from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class RunHistory(FollowedRun):
    """An ended run with its events. ``records`` excludes the seal."""

    records: tuple[OrchestratorEvent, ...] = ()

    def policies(self) -> tuple[str, ...]:
        """Digests of the policies at acceptance and of later ones that a gate used, in order.

        Later ones exist when the operator changed the policies during the run.
        """
        seen = [found.digest for gate in self.gates for found in gate.evidence if found.name == POLICIES]
        return tuple(dict.fromkeys([self.run.accepted.policy_sha256, *seen]))


def evidence_records(transitions: Iterable[Transition]) -> tuple[OrchestratorEvent, ...]:
    """Return the events that belong to a bundle: all except those about the bundle itself."""
    records = (record for transition in transitions for record in transition.events)
    return tuple(record for record in records if record.event_type not in e.ABOUT_BUNDLES)


def evidence_transitions(transitions: Iterable[Transition]) -> int:
    """Return the number of ledger messages of the bundle: up to the last one that contains more than the seal."""
    return max((t.number for t in transitions if evidence_records([t])), default=0)


def ended_history(run: Run, records: Sequence[OrchestratorEvent]) -> RunHistory:
    """Return the history of ``run``, the state that ``records`` fold to.

    Raises:
        MalformedError: the run is open (``run_not_ended``), or an event has an invalid payload.
    """
    past = follow_all(records)
    if past is None or not run.ended or not run.finished_at:
        raise MalformedError(f"run {run.run_id} has not ended", code="run_not_ended")
    known = {each.name: getattr(past, each.name) for each in fields(FollowedRun)}
    return RunHistory(**known | {"run": run}, records=tuple(records))
