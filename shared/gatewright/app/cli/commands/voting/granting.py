"""``approvals grant``, ``grants`` and ``revoke``: what is approved in advance, for a pattern and a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.commands.deciding import As, Comment, Key, approvals
from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.option_groups import grouped
from gatewright.app.cli.output import emit, note, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts.people.approvals import GrantStanding


def register(app: typer.Typer) -> None:  # noqa: ARG001 - they join a group that is there
    for command in (grant, grants, revoke):
        approvals.command()(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFlags:
    """What a grant covers, as Typer reads it."""

    path: Annotated[list[str], typer.Option(metavar="PATH", help="docs/, README.md or *.md; may be given again.")]
    until: Annotated[str, typer.Option(metavar="TIME", help="18:00, 4h, 2d, or a whole time with its zone.")]
    uses: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="As many runs it lets pass.")] = 1
    protected: Annotated[
        list[str] | None, typer.Option("--class", metavar="dependencies|migrations", help="Protected files that it may touch.")
    ] = None
    versions: Annotated[
        str, typer.Option(metavar="patch|minor", help="Only changes that move versions up, by so much at most.")
    ] = ""
    risk: Annotated[
        str, typer.Option(metavar="low|medium", help="The highest risk of a change.", show_default="that of the rule")
    ] = ""

    def said(self) -> dict[str, object]:
        """The fields of the document."""
        optional = {"versions": self.versions, "risk_at_most": self.risk}
        given = {name: value for name, value in optional.items() if value}
        return {"paths": self.path, "max_uses": self.uses, "classes": self.protected or [], **given}


@reported
@grouped
def grant(
    name: Annotated[str, typer.Argument(metavar="REQUEST", help="A request that was asked: its repository, its rule.")],
    *,
    flags: GrantFlags,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """Approve in advance what runs like this one will ask: for these paths, for a time. The request itself goes on waiting."""
    import asyncio

    from gatewright.app.cli.people.granting import end_of, grant_all_like
    from gatewright.clock import SystemClock

    now = SystemClock().now()
    who, with_key = _signer(person, key)
    until = end_of(flags.until, now)
    found = asyncio.run(grant_all_like(name, who, with_key, now, until, **flags.said(), comment=comment))
    _show(found, json_output=json_output)


@reported
def grants(json_output: JsonOutput = False) -> None:
    """List what was approved in advance, and which runs it has let pass."""
    import asyncio

    from gatewright.app.cli.people.granting import all_grants, grants_table

    found = asyncio.run(all_grants())
    if json_output:
        emit({"grants": [_plain(each) for each in found]})
        return
    for line in grants_table(found):
        say(line)


@reported
def revoke(
    name: Annotated[str, typer.Argument(metavar="GRANT", help="A grant that `approvals grants` lists.")],
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """End a grant before its time: from then on people are asked again. Each person of the roster may."""
    import asyncio

    from gatewright.app.cli.people.granting import revoke_grant
    from gatewright.clock import SystemClock

    who, with_key = _signer(person, key)
    _show(asyncio.run(revoke_grant(name, who, with_key, SystemClock().now(), comment)), json_output=json_output)


def _signer(person: str, key: Path | None) -> tuple[str, Path]:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.signing import signing_identity

    return signing_identity(find_place(), person, key)


def _show(found: GrantStanding, *, json_output: bool) -> None:
    if json_output:
        emit(_plain(found))
        return
    grant = found.grant
    say(printable(f"{grant.grant_id} of {grant.person} is {found.status}: {grant.rule} in {grant.repository}"))
    moves = f", versions by {grant.versions} at most" if grant.versions is not None else ""
    say(printable(f"  {', '.join(grant.paths)}{moves}; until {grant.not_after}, for {grant.max_uses} runs"))
    note("`gatewright approvals grants` lists all, `gatewright approvals revoke GRANT` ends one")


def _plain(found: GrantStanding) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain
