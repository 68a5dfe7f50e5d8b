"""``gatewright approve``: what a refused run lacks a person's leave for, and the approval of exactly that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from gatewright.app.cli.bundle_sources import find_bundle, trusted_keys
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.runs.sources import EVENTS_FILE, read_events
from gatewright.clock import timestamp
from gatewright.contracts import GateReport, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence.approvals import CI_RULE, TO_APPROVE, ApprovedChange, ContentApproval
from gatewright.evidence.verification.verify import verify
from gatewright.view.run_view import view_of

_SIDE = r"\d{6} [0-9a-f]{40}(?:[0-9a-f]{24})?"
_SIDES = re.compile(rf"({_SIDE}) -> ({_SIDE})")  # noqa: TID251 - linear: of a fixed length


@dataclass(frozen=True, slots=True)
class RefusedRun:
    """What a run was refused for."""

    run_id: str
    repository: str
    changes: tuple[ApprovedChange, ...]


def asked_by(given: str, place: CommandContext) -> RefusedRun:
    """What the run or bundle ``given`` lacks an approval for, as its bundle says; the bundle is verified first.

    Raises MalformedError (``nothing_to_approve``), VerificationError.
    """
    bundle = find_bundle(given, place)
    result = verify(bundle, trusted_keys(None, place), None)
    if not result.ok:
        raise VerificationError(f"{bundle} does not verify; see gatewright verify", code="bundle_invalid")
    view = view_of(read_events(bundle / EVENTS_FILE))
    changes: dict[str, ApprovedChange] = {}
    for file in sorted((bundle / "reports" / "gates").glob("*.json")):
        report = codec.decode(file.read_bytes(), GateReport)
        if any(violation.rule == CI_RULE for violation in report.violations):
            # A later attempt may have changed the same path otherwise: the last one counts.
            changes |= {change.path: change for change in _changes(report)}
    if view is None or not changes:
        raise MalformedError(f"{given} was refused for nothing that an approval opens", code="nothing_to_approve")
    return RefusedRun(view.run.run_id, view.run.accepted.repository_url, tuple(changes.values()))


def approval_of(asked: RefusedRun, by: str, reason: str, now: datetime, days: float) -> ContentApproval:
    """The approval of everything that was asked for."""
    return ContentApproval(
        what="ci",
        repository=asked.repository,
        changes=asked.changes,
        approved_by=by,
        reason=reason,
        expires_at=timestamp(now + timedelta(days=days)),
        run_id=asked.run_id,
    )


def file_of(place: CommandContext, asked: RefusedRun) -> Path:
    """Where an approval is kept unless it is said otherwise."""
    return place.home / "approvals" / f"{asked.run_id}.json"


def _changes(report: GateReport) -> list[ApprovedChange]:
    found = []
    for seen in report.evidence:
        sides = _SIDES.fullmatch(seen.digest)
        if seen.name.startswith(TO_APPROVE) and sides is not None:
            found.append(ApprovedChange(seen.name.removeprefix(TO_APPROVE), sides[1], sides[2]))
    return found
