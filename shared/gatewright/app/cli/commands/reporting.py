"""``report``: a run as one page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.options import BundleArgument, JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable


def register(app: typer.Typer) -> None:
    app.command()(report)


@reported
def report(
    bundle: BundleArgument = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")],
    key: Annotated[
        str | None,
        typer.Option(metavar="FILE|FINGERPRINT", help="The public key to trust.", show_default="all that this home trusts"),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Write a run as one self-contained HTML page: timeline, gates, change, tests and evidence.

    The bundle is verified first, and the page begins with the outcome. Exit code 1 when it does not verify; the page is
    written all the same, and says so.
    """
    from gatewright.app.cli.bundles.reporting import write_report
    from gatewright.app.cli.outcome import Exit

    result = write_report(bundle, output, key)
    if json_output:
        emit({"report": str(output), "ok": result.ok, "outcome": result.outcome, "run_id": result.run_id})
    else:
        say(f"{'✔' if result.ok else '✘'} {printable(str(output))}: the bundle is {_outcome_words(result.outcome)}")
    raise typer.Exit(Exit.GOOD if result.ok else Exit.FAILED)


def _outcome_words(outcome: str) -> str:
    return {"ok": "verified"}.get(outcome, outcome.replace("_", " "))
