"""``run``, ``submit`` and ``abort``: commands that change what happens."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.commands.options import Class, Environments, JsonOutput
from gatewright.app.cli.output import emit, reported, say

if TYPE_CHECKING:
    from gatewright.contracts import RunRequest, TaskContract

#: Seconds that an aborted run is given to end and be sealed.
ABORT_WAIT = 30.0

_HELP_RUN = """Have a change made, judged, tested and landed.

The change is made by --exec (a command, in a sandbox), --patch (a diff), --reply (a model's answer) or --head (commits \
that exist). \
It may touch only the --allow paths, and lands only when every --test command succeeds on it.

Example: gatewright run "rename parse to read" --allow src --exec "python rename.py" --test "python -m pytest -q"
"""


class Landing(StrEnum):
    """Where a proven change goes."""

    BRANCH = "branch"
    TARGET = "target"
    NONE = "none"


class PackName(StrEnum):
    """How strict the policy is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Kind(StrEnum):
    """Kinds of change that each need the contract's leave."""

    BINARY = "binary"
    EXECUTABLE = "executable"
    MODE_CHANGE = "mode_change"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    GITATTRIBUTES = "gitattributes"
    GITMODULES = "gitmodules"
    LARGE_FILE = "large_file"
    LARGE_DIFF = "large_diff"


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_RUN)(run)
    app.command()(submit)
    app.command()(abort)


@reported
def run(
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="What is to be done, in words.")] = "",
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="The repository; by default the one you stand in.")
    ] = None,
    ref: Annotated[str, typer.Option(help="The branch, tag or commit to start from.")] = "HEAD",
    allow: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="A file or directory that may change (repeatable).")
    ] = None,
    allow_tests: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-tests",
            "--allow-protected",
            metavar="PATH",
            help="A test, fixture or lint configuration that may change too; --allow is not needed for it (repeatable).",
        ),
    ] = None,
    allow_dependencies: Annotated[
        bool, typer.Option("--allow-dependencies", help="Manifests and lock files inside the paths may change.")
    ] = False,
    allow_kind: Annotated[
        list[Kind] | None, typer.Option(metavar="KIND", help="Open a kind of change: " + ", ".join(Kind) + " (repeatable).")
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option("--exec", metavar="CMD", help="A command that makes the change; one for each attempt (repeatable)."),
    ] = None,
    patch: Annotated[str | None, typer.Option(metavar="FILE|-", help="A diff that is the change; - is a pipe.")] = None,
    reply: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|-", help="A model's reply that holds the files; one for each attempt (repeatable)."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Commits that exist: what BRANCH adds to --ref, squashed into one change."),
    ] = None,
    approval: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A person's signed approval: see gatewright approve.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="CMD", help="A command that must succeed on the change (repeatable).")
    ] = None,
    shards: Annotated[int, typer.Option(min=1, max=64, help="Into how many disjoint parts the work may be split.")] = 1,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Worker processes to start.", show_default="one per shard, at most one per core"),
    ] = None,
    env: Environments = None,
    land: Annotated[Landing, typer.Option(help="Land on a new branch, on --target-ref, or not at all.")] = Landing.BRANCH,
    target_ref: Annotated[
        str | None, typer.Option(metavar="REF", help="With --land target: the branch; it must be at --ref.")
    ] = None,
    policy_pack: Annotated[PackName, typer.Option(help="How strict the policy is.")] = PackName.LOW,
    priority: Annotated[Class, typer.Option(help="How urgent the run is among others.")] = Class.NORMAL,
    max_retries: Annotated[
        int | None, typer.Option(min=0, max=10, help="Rounds of the fix loop.", show_default="one per further answer")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit of each task.")] = 300.0,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e9, metavar="SECONDS", help="Budget: time from acceptance to the end of the run."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=0, max=2**53 - 1, metavar="N", help="Budget: tokens of all models together.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, max=1e9, metavar="USD", help="Budget: US dollars.")] = None,
    max_iterations: Annotated[
        int | None,
        typer.Option(min=1, max=2**53 - 1, metavar="N", help="Budget: rounds of the fix loop, or turns of an agent."),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    import asyncio

    from gatewright.app.cli.run.request import RunOptions
    from gatewright.app.cli.run.start import start_run

    options = RunOptions(
        request=request,
        repo=repo,
        ref=ref,
        allow=tuple(allow or ()),
        allow_tests=tuple(allow_tests or ()),
        allow_dependencies=allow_dependencies,
        allow_kinds=tuple(kind.value for kind in allow_kind or ()),
        commands=tuple(command or ()),
        patch=patch,
        replies=tuple(reply or ()),
        head=head,
        approval=approval,
        tests=tuple(test or ()),
        shards=shards,
        env=tuple(env or ()),
        land=land.value,
        target_ref=target_ref,
        policy_pack=policy_pack.value,
        priority=priority.value,
        max_retries=max_retries,
        timeout=timeout,
        max_seconds=max_seconds,
        max_tokens=max_tokens,
        max_cost=max_cost,
        max_iterations=max_iterations,
    )
    raise typer.Exit(asyncio.run(start_run(options, workers, json_output=json_output)))


@reported
def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A run request or task contract as JSON; - reads standard input.")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it has ended.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Submit a run request or a task contract to the running system."""
    import asyncio

    from gatewright.app.cli.checking.documents import read_submittable

    document = read_submittable(file)
    raise typer.Exit(asyncio.run(_submit(document, wait=wait, json_output=json_output)))


async def _submit(document: RunRequest | TaskContract, *, wait: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.run.following import follow_to_end
    from gatewright.app.cli.session import attached
    from gatewright.contracts import RunRequest

    place = find_place()
    async with attached(place.bus, place.home, lasting=True) as client:
        if isinstance(document, RunRequest):
            run_id = await client.submit_request(document)
        else:
            run_id = await client.submit_contract(document)
        if wait:
            return await follow_to_end(client, run_id, json_output=json_output)
    answer: dict[str, Any] = {"run_id": run_id}
    if json_output:
        emit(answer)
    else:
        say(f"accepted {run_id}\n  next: gatewright watch {run_id}")
    return 0


@reported
def abort(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run id or its beginning.")],
    reason: Annotated[str, typer.Option(help="Why; it is written into the run's record.")] = "aborted by the operator",
    json_output: JsonOutput = False,
) -> None:
    """End a run that is still open: its work stops, nothing lands, its bundle says ABORTED."""
    import asyncio

    raise typer.Exit(asyncio.run(_abort(run_id, reason, json_output=json_output)))


async def _abort(wanted: str, reason: str, *, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.result import result_of
    from gatewright.app.cli.runs.sources import LedgerSource, find_run
    from gatewright.app.cli.runs.view import view_of
    from gatewright.app.cli.session import attached

    place = find_place()
    async with attached(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        await client.abort(run_id, reason)
        await client.wait(run_id, timeout=ABORT_WAIT)
        view = view_of(await client.events(run_id))
    if view is not None and json_output:
        emit(result_of(view))
    elif view is not None:
        say(f"{run_id} is {view.run.status}\n  bundle {view.bundle}")
    return 0
