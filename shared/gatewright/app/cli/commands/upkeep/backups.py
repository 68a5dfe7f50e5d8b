"""``backup`` and ``restore``: a whole installation into a folder, while runs go on, and back onto another disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say
from gatewright.view.safe_text import printable

Keys = Annotated[
    Path | None, typer.Option("--keys", metavar="DIR", help="Where the identities are; the home folder's if left out.")
]


def register(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)


@reported
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet.")],
    keys: Keys = None,
    json_output: JsonOutput = False,
) -> None:
    """Keep a whole installation: streams, keys, identities, policies, sealed bundles. Runs go on meanwhile.

    With GATEWRIGHT_NATS_URL, as provisioner; else the stack of the home folder, whether it runs or not. It holds private keys:
    its files are for their owner alone (0600), and not encrypted.
    """
    from gatewright.app.cli.operations.backups import keep

    made = keep(folder, keys, _silent if json_output else _tell)
    contents = made.contents
    if json_output:
        emit(
            {
                "folder": str(folder),
                "sha256": made.sha256,
                "moment": contents.moment,
                "streams": {each.stream: each.messages for each in contents.streams},
                "files": len(contents.files),
                "bundles": len(contents.bundles),
                "bundle_store": contents.bundle_store,
                "bytes": contents.size(),
                "later": made.later,
            }
        )
        return
    say(f"kept {printable(str(folder))}: {contents.size()} bytes, the ledger up to message {contents.moment}")
    if contents.bundle_store:
        say(f"  bundles stay in {printable(contents.bundle_store)}, and are no part of it")
    if made.later:
        say(f"  {len(made.later)} runs ended while it was taken: to the backup they are open")
    say(f"  digest sha256:{made.sha256}  (keep it elsewhere: `restore --digest` holds the backup to it)")
    note("the backup holds private keys and is not encrypted: encrypt it before it leaves this host")


@reported
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `gatewright backup` wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Look at all of it, and restore nothing.")] = False,
    digest: Annotated[
        str | None, typer.Option(metavar="sha256:HEX", help="What `backup` printed: another backup is refused.")
    ] = None,
    only: Annotated[
        Literal["files", "streams"] | None,
        typer.Option(help="files: the home folder. streams: what the NATS server of GATEWRIGHT_NATS_URL keeps."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Servers of a cluster that keep each stream, if others than before.")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Bring an installation back from a backup, into a home folder and a NATS server that hold nothing yet."""
    from gatewright.app.cli.operations.backups import bring_back, look_at

    contents, found = look_at(folder, digest)
    done = None if check else bring_back(folder, contents, only, replicas, _silent if json_output else _tell)
    if json_output:
        counts = {"streams": done.streams, "files": done.files, "bundles": done.bundles, "ahead": done.ahead} if done else {}
        emit({"folder": str(folder), "sha256": found, "moment": contents.moment, "restored": done is not None, **counts})
        return
    size = f"{contents.size()} bytes of {contents.created_at}, the ledger up to message {contents.moment}"
    say(f"{'whole' if done is None else 'restored'} {printable(str(folder))}: {size}")
    for run in done.ahead if done else ():
        say(f"  {printable(run)}: its bundle is newer than the ledger, and was put aside (runs-after-backup)")
    if done is not None and any(file.path.startswith("policies/") for file in contents.files):
        say("  policies are in the home folder: set GATEWRIGHT_POLICIES to its `policies`")


def _tell(words: str) -> None:
    say(f"  {printable(words)}")


def _silent(words: str) -> None:
    """With --json the last line is all that is said."""
