"""``verify``: does a bundle prove what it claims?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatewright.cli.commands.options import JsonOutput
from gatewright.cli.output import emit, printable, reported, say


def register(app: typer.Typer) -> None:
    app.command()(verify)


@reported
def verify(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, or a run of this home folder.")],
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The public key to trust (PEM).", show_default="this host's own")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Check every byte of a run bundle, without a bus and without writing. Exit code 1 when it does not hold."""
    from gatewright.cli.bundle_check import check_bundle, verdict_lines, verification_document
    from gatewright.cli.outcome import Exit

    result = check_bundle(bundle, key)
    if json_output:
        emit(verification_document(result))
    else:
        for line in verdict_lines(result):
            say(printable(line))
    raise typer.Exit(Exit.GOOD if result.ok else Exit.FAILED)
