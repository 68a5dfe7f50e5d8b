"""``approvals grant``, ``grants`` and ``revoke``: signed approvals in advance, for a pattern and a limited time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput, grouped
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.app.cli.people.inbox import MOST, document_of, open_inbox
from gatewright.app.cli.people.signing import As, Comment, Key, sign_document, signing_identity
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from datetime import datetime

    from gatewright.contracts import ApprovalGrant
    from gatewright.contracts.people.approvals import ApprovalRequest, GrantStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFlags:
    """The scope of a grant, as Typer reads it."""

    path: Annotated[list[str], typer.Option(metavar="PATH", help="Path to cover: docs/, README.md or *.md")]
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the grant: 18:00, 4h, 2d, or a time with zone")]
    uses: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Maximum number of runs")] = 1
    protected: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="dependencies|migrations", help="Class of protected files that the change may touch"),
    ] = None
    versions: Annotated[str, typer.Option(metavar="patch|minor", help="Cover only version updates, up to this size")] = ""
    risk: Annotated[str, typer.Option(metavar="low|medium", help="Highest risk of a change", show_default="as in the rule")] = (
        ""
    )

    def document_fields(self) -> dict[str, object]:
        """Return the fields of the document."""
        optional = {"versions": self.versions, "risk_at_most": self.risk}
        given = {name: value for name, value in optional.items() if value}
        return {"paths": self.path, "max_uses": self.uses, "classes": self.protected or [], **given}


@reported
@grouped
def grant(
    name: Annotated[str, typer.Argument(metavar="REQUEST", help="Request whose repository and rule the grant covers")],
    *,
    flags: GrantFlags,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """Approve similar future requests in advance.

    A grant covers the given paths for a limited time. The request itself keeps waiting.
    """
    import asyncio

    from gatewright.clock import SystemClock

    now = SystemClock().now()
    who, with_key = _signer(person, key)
    until = end_of(flags.until, now)
    found = asyncio.run(grant_all_like(name, who, with_key, now, until, **flags.document_fields(), comment=comment))
    _show(found, json_output=json_output)


@reported
def grants(json_output: JsonOutput = False) -> None:
    """List grants and the runs that used them."""
    import asyncio

    found = asyncio.run(all_grants())
    if json_output:
        emit({"grants": [document_of(each) for each in found]})
        return
    for line in grants_table(found):
        write_line(line)


@reported
def revoke(
    name: Annotated[str, typer.Argument(metavar="GRANT", help="Grant id (see: gatewright approvals grants)")],
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """Revoke a grant before it expires.

    Each person on the roster may revoke it. From then on Gatewright asks people again.
    """
    import asyncio

    from gatewright.clock import SystemClock

    who, with_key = _signer(person, key)
    _show(asyncio.run(revoke_grant(name, who, with_key, SystemClock().now(), comment)), json_output=json_output)


def _signer(person: str, key: Path | None) -> tuple[str, Path]:
    from gatewright.app.cli.context import find_place

    return signing_identity(find_place(), person, key)


def _show(found: GrantStanding, *, json_output: bool) -> None:
    if json_output:
        emit(document_of(found))
        return
    grant = found.grant
    write_line(printable(f"{grant.grant_id} of {grant.person} is {found.status}: {grant.rule} in {grant.repository}"))
    moves = f", versions by {grant.versions} at most" if grant.versions is not None else ""
    write_line(printable(f"  {', '.join(grant.paths)}{moves}; until {grant.not_after}, for {grant.max_uses} runs"))
    note("`gatewright approvals grants` lists all, `gatewright approvals revoke GRANT` ends one")


def end_of(until: str, now: datetime) -> datetime:
    """Parse an end time: ``18:00`` of today, ``90m``, ``4h`` or ``2d`` from now, or a full time with zone.

    Raises MalformedError (``bad_time``).
    """
    from datetime import UTC, datetime, time, timedelta

    from gatewright.errors import MalformedError

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


def grant_like(request: ApprovalRequest, person: str, now: datetime, until: datetime, **fields: object) -> ApprovalGrant:
    """Build a grant for the repository and rule of ``request``. Raises MalformedError (``bad_grant``)."""
    import secrets

    import msgspec

    from gatewright.clock import timestamp
    from gatewright.contracts import ApprovalGrant
    from gatewright.errors import MalformedError

    plain = {
        "grant_id": f"grant-{secrets.token_hex(8)}",
        "repository": request.repository,
        "rule": request.rule,
        "reason": request.reason,
        "risk_at_most": request.risk,
        "person": person,
        "made_at": timestamp(now),
        "not_after": timestamp(until),
        **fields,
    }
    try:
        return msgspec.convert(plain, ApprovalGrant)
    except msgspec.ValidationError as error:
        raise MalformedError(f"that can be no grant: {error}", code="bad_grant") from error


async def grant_all_like(name: str, person: str, key: Path, now: datetime, until: datetime, **fields: object) -> GrantStanding:
    """Grant future requests like the request ``name``. Raises as the gatekeeper refuses a grant."""
    from gatewright.app.cli.context import find_place
    from gatewright.contracts import ApprovalsRequest, GrantChange
    from gatewright.errors import MalformedError
    from gatewright.rules.grants import GRANT_NAMESPACE

    async with open_inbox(find_place()) as inbox:
        listed = (await inbox.listed(ApprovalsRequest(run_id=name.partition(".ask.")[0], limit=MOST))).approvals
        found = [each.request for each in listed if name in {each.request.request_id, each.request.run_id}]
        if len(found) != 1:
            ids = ", ".join(each.request_id for each in found) or "one that is there"
            raise MalformedError(f"{name} means {len(found)} requests: name {ids}", code="approval_unknown")
        signed = sign_document(grant_like(found[0], person, now, until, **fields), key, GRANT_NAMESPACE)
        return await inbox.change_grant(GrantChange(kind="grant", signed=signed))


async def revoke_grant(grant_id: str, person: str, key: Path, now: datetime, comment: str) -> GrantStanding:
    """Revoke a grant before its end. Raises DeniedError (``grant_unknown``, ``grant_over``)."""
    from gatewright.app.cli.context import find_place
    from gatewright.clock import timestamp
    from gatewright.contracts import GrantChange, GrantRevocation
    from gatewright.errors import MalformedError
    from gatewright.rules.grants import REVOCATION_NAMESPACE

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
    """Return every stored grant, oldest first."""
    from gatewright.app.cli.context import find_place

    async with open_inbox(find_place()) as inbox:
        return await inbox.grants()


def grants_table(found: Sequence[GrantStanding]) -> list[str]:
    """Format the list."""
    lines = [f"{'GRANT':<22} {'STATUS':<8} {'USED':>7}  {'UNTIL':<24}  BY: RULE, PATHS, REPOSITORY"]
    for each in found:
        grant = each.grant
        used = f"{len(each.uses)}/{grant.max_uses}"
        moves = (f"({grant.versions} versions)",) if grant.versions is not None else ()
        paths = ", ".join((*grant.paths, *(f"({name})" for name in grant.classes), *moves))
        what = f"{grant.person}: {grant.rule}, {paths}, {grant.repository}"
        lines.append(printable(f"{grant.grant_id:<22} {each.status:<8} {used:>7}  {grant.not_after:<24}  {what}"))
    return lines
