"""``approve``: a person lets through, with a key, what a run was refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable


def register(app: typer.Typer) -> None:
    app.command()(approve)


@reported
def approve(
    run_id: Annotated[str, typer.Argument(metavar="RUN|BUNDLE", help="The refused run, whose change you have looked at.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why this change of the pipeline is right.")],
    *,
    days: Annotated[float, typer.Option(min=0.001, max=90, metavar="N", help="How long the approval holds.")] = 7.0,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who approves.", show_default="your account")] = "",
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The private key to sign with (PEM).", show_default="this home's own")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the approval is written.")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Approve exactly the changes of CI files that RUN was refused for, signed, for a time."""
    from gatewright.app.cli.bundles.approving import approval_of, asked_by, file_of
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.user_git import user_name
    from gatewright.clock import SystemClock
    from gatewright.errors import ConfigurationError
    from gatewright.evidence.approvals import sign_approval
    from gatewright.evidence.signing import keys
    from gatewright.evidence.signing.durable_files import put_file
    from gatewright.evidence.signing.envelopes import Signer

    place = find_place()
    asked = asked_by(run_id, place)
    signer = Signer(keys.load(key or place.key))
    approval = approval_of(asked, by or user_name(), reason, SystemClock().now(), days)
    file = output or file_of(place, asked)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        put_file(file, sign_approval(approval, signer), mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    if json_output:
        paths = [change.path for change in approval.changes]
        emit({"approval": str(file), "key_id": signer.key_id, "paths": paths, "expires_at": approval.expires_at})
        return
    for change in approval.changes:
        say(printable(f"approved {change.path}  {change.old} -> {change.new}"))
    say(printable(f"  in {asked.repository}, until {approval.expires_at}, signed by {signer.key_id}"))
    say(printable(f"  next: the same command again with --approval {file}"))
