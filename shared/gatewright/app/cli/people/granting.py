"""What a person approves in advance as words of a command, signed with their own key; and the grants there are, for people."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import msgspec

from gatewright.app.cli.context import find_place
from gatewright.app.cli.people.session import MOST, open_inbox
from gatewright.app.cli.people.signing import sign_document
from gatewright.clock import timestamp
from gatewright.contracts import ApprovalGrant, ApprovalsRequest, GrantChange, GrantRevocation
from gatewright.contracts.people.approvals import ApprovalRequest, GrantStanding
from gatewright.errors import MalformedError
from gatewright.rules.grants import GRANT_NAMESPACE, REVOCATION_NAMESPACE
from gatewright.view.safe_text import printable


def end_of(until: str, now: datetime) -> datetime:
    """``18:00`` of this day here, ``90m``, ``4h`` or ``2d`` from now, or a whole time with its zone.

    Raises MalformedError (``bad_time``).
    """
    units = {"m": "minutes", "h": "hours", "d": "days"}
    if until[:-1].isdigit() and until[-1:] in units and len(until) < 8:
        return now + timedelta(**{units[until[-1]]: int(until[:-1])})
    try:
        if len(until) == 5:
            return datetime.combine(now.astimezone().date(), time.fromisoformat(until)).astimezone(UTC)
        found = datetime.fromisoformat(until)
    except ValueError as error:
        raise MalformedError(f"{until!r} is no time: give 18:00, 4h, 2d or 2026-05-04T18:00+02:00", code="bad_time") from error
    if found.tzinfo is None:
        raise MalformedError(f"{until!r} has no zone: give 2026-05-04T18:00+02:00", code="bad_time")
    return found.astimezone(UTC)


def grant_like(request: ApprovalRequest, person: str, now: datetime, until: datetime, **said: object) -> ApprovalGrant:
    """A grant about what ``request`` asks: its repository, its rule. Raises MalformedError (``bad_grant``) for what is none."""
    plain = {
        "grant_id": f"grant-{secrets.token_hex(8)}",
        "repository": request.repository,
        "rule": request.rule,
        "reason": request.reason,
        "risk_at_most": request.risk,
        "person": person,
        "made_at": timestamp(now),
        "not_after": timestamp(until),
        **said,
    }
    try:
        return msgspec.convert(plain, ApprovalGrant)
    except msgspec.ValidationError as error:
        raise MalformedError(f"that can be no grant: {error}", code="bad_grant") from error


async def grant_all_like(name: str, person: str, key: Path, now: datetime, until: datetime, **said: object) -> GrantStanding:
    """Grant what the request ``name`` asks, from now on. Raises what the gatekeeper refuses a grant for."""
    async with open_inbox(find_place()) as inbox:
        listed = (await inbox.listed(ApprovalsRequest(run_id=name.partition(".ask.")[0], limit=MOST))).approvals
        found = [each.request for each in listed if name in {each.request.request_id, each.request.run_id}]
        if len(found) != 1:
            ids = ", ".join(each.request_id for each in found) or "one that is there"
            raise MalformedError(f"{name} means {len(found)} requests: name {ids}", code="approval_unknown")
        signed = sign_document(grant_like(found[0], person, now, until, **said), key, GRANT_NAMESPACE)
        return await inbox.change_grant(GrantChange(kind="grant", signed=signed))


async def revoke_grant(grant_id: str, person: str, key: Path, now: datetime, comment: str) -> GrantStanding:
    """End a grant before its time. Raises DeniedError (``grant_unknown``, ``grant_over``)."""
    async with open_inbox(find_place()) as inbox:
        found = next((each for each in await inbox.grants() if each.grant.grant_id == grant_id), None)
        if found is None:
            raise MalformedError(f"there is no grant {grant_id}", code="grant_unknown")
        revocation = GrantRevocation(
            grant_id=grant_id, grant_sha256=found.grant_sha256, person=person, revoked_at=timestamp(now), comment=comment
        )
        signed = sign_document(revocation, key, REVOCATION_NAMESPACE)
        return await inbox.change_grant(GrantChange(kind="revocation", signed=signed))


async def all_grants() -> tuple[GrantStanding, ...]:
    """Every grant that is kept, the oldest first."""
    async with open_inbox(find_place()) as inbox:
        return await inbox.grants()


def grants_table(found: Sequence[GrantStanding]) -> list[str]:
    """The list for people."""
    lines = [f"{'GRANT':<22} {'STATUS':<8} {'USED':>7}  {'UNTIL':<24}  BY: RULE, PATHS, REPOSITORY"]
    for each in found:
        grant = each.grant
        used = f"{len(each.uses)}/{grant.max_uses}"
        moves = (f"({grant.versions} versions)",) if grant.versions is not None else ()
        paths = ", ".join((*grant.paths, *(f"({name})" for name in grant.classes), *moves))
        what = f"{grant.person}: {grant.rule}, {paths}, {grant.repository}"
        lines.append(printable(f"{grant.grant_id:<22} {each.status:<8} {used:>7}  {grant.not_after:<24}  {what}"))
    return lines
