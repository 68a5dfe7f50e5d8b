"""``verify``, ``replay``, ``attach``: does a bundle prove what it claims, can its run be told again, and who else has it?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gatewright.app.cli.options import BundleArgument, JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

_HELP_REPLAY = """Tell a run again from its events, and compare every file that follows from them.

Nothing is run and no bus is asked. With --from-ledger the bundle itself is made again, byte for byte, from the ledger and \
the artifact store. With --reexecute the order is carried out once more on the same baseline, landing nowhere, and the \
results are compared.

Examples: gatewright replay RUN; gatewright replay --from-ledger RUN -o DIR; gatewright replay --reexecute RUN
"""


def register(app: typer.Typer) -> None:
    app.command()(verify)
    app.command(help=_HELP_REPLAY)(replay)
    app.command()(attach)
    app.command()(fetch)


@reported
def verify(
    bundle: BundleArgument = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|FINGERPRINT",
            help="A public key to trust: a PEM file, or the id of a key of this home; may be given again.",
            show_default="all that this home trusts",
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Compare the recorded trees and commit with this repository's.")
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--insecure-allow-unsigned", help="UNSAFE: accept a bundle that has no signature at all.")
    ] = False,
    json_output: JsonOutput = False,
) -> None:
    """Check every byte of a run bundle, without a bus and without writing. Exit code 1 when it does not hold."""
    from gatewright.app.cli.bundles.verifying import check_bundle, verdict_lines, verification_document
    from gatewright.app.cli.outcome import Exit

    checked = check_bundle(bundle, key or (), _address(repo), unsigned=unsigned)
    if json_output:
        emit(verification_document(checked))
    else:
        for line in verdict_lines(checked):
            say(printable(line))
    raise typer.Exit(Exit.GOOD if checked.result.ok else Exit.FAILED)


@reported
def fetch(
    run: Annotated[str, typer.Argument(metavar="RUN|STORE/RUN", help="A whole run id, or the address of a bundle in a store.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where to put it, in a folder of its own.")],
    json_output: JsonOutput = False,
) -> None:
    """Get the bundle of a run from the gatekeeper, over the bus, or from a store. It is verified with `gatewright verify`.

    A publisher is given the bundles of its own runs.
    """
    import asyncio

    from gatewright.app.cli.bundles.stored import fetch_bundle
    from gatewright.evidence.store.address import is_address

    folder = fetch_bundle(run, output) if is_address(run) else asyncio.run(_receive(run, output))
    if json_output:
        emit({"bundle": str(folder)})
        return
    say(f"{printable(str(folder))}")
    say(f"  verify it with: gatewright verify {printable(str(folder))}")


async def _receive(run_id: str, output: Path) -> Path:
    from gatewright.app.cli.bundles.stored import receive_bundle
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return await receive_bundle(client, run_id, output)


@reported
def attach(
    bundle: BundleArgument = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="The repository to write to.", show_default="where it landed")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Put the signed statements on the landed commit, as a git note (refs/notes/gatewright). No work tree is touched."""
    from gatewright.app.cli.bundles.attaching import attach as attach_bundle

    done = attach_bundle(bundle, _address(repo))
    if json_output:
        emit(done)
        return
    say(f"{'attach_client to' if done.new else 'already on'} {done.commit} in {printable(done.repository)}")
    say(f"  read it with: git notes --ref=gatewright show {done.commit}")


def _address(repo: str | None) -> str | None:
    """A path as an absolute one; an address as it is."""
    return str(Path(repo).absolute()) if repo is not None and Path(repo).is_dir() else repo


@reported
def replay(
    bundle: BundleArgument = None,
    *,
    from_ledger: Annotated[
        bool, typer.Option("--from-ledger", help="Make the bundle of this run again from the ledger.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="With --from-ledger: where to put it.")
    ] = None,
    signing_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --from-ledger: the private key, where it is not this host's own.")
    ] = None,
    again: Annotated[bool, typer.Option("--reexecute", help="Carry out the order again and compare the results.")] = False,
    repo: Annotated[
        str | None, typer.Option(metavar="URL", help="With --reexecute: where the repository lies now.", show_default="as then")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="FILE|FINGERPRINT", help="With --reexecute: the public key to trust.")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    import asyncio

    from gatewright.app.cli.bundles import replaying
    from gatewright.app.cli.bundles.verifying import find_bundle
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.replay.rehydration import rehydrate
    from gatewright.errors import MalformedError

    if from_ledger and again:
        raise MalformedError("give --from-ledger or --reexecute, not both", code="invalid_input")
    if from_ledger:
        sealed = asyncio.run(replaying.rebuild_bundle(bundle, output, signing_key))
        document: Any = {"location": sealed.location, "manifest_sha256": sealed.manifest_sha256, "signer": sealed.signer}
        lines, good = [f"✔ made again, byte for byte: {printable(sealed.location)}"], True
    elif again:
        folder = find_bundle(bundle, find_place())
        report, file = asyncio.run(replaying.reexecute(folder, key, repo, quiet=json_output))
        document, lines, good = report, replaying.reexecution_lines(report, file), report.status == "pass"
    else:
        result = rehydrate(find_bundle(bundle, find_place()))
        document, lines, good = replaying.rehydration_document(result), replaying.rehydration_lines(result), result.ok
    if json_output:
        emit(document)
    else:
        for line in lines:
            say(line)
    raise typer.Exit(Exit.GOOD if good else Exit.FAILED)
