"""``run``, ``submit`` and ``abort``: commands that change what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.commands import run_options as o
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


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_RUN)(run)
    app.command()(submit)
    app.command()(abort)


@reported
def run(
    request: o.RequestWords = "",
    *,
    repo: o.RepositoryOption = None,
    ref: o.BaselineRef = "HEAD",
    allow: o.AllowedPaths = None,
    allow_tests: o.AllowedTests = None,
    allow_dependencies: o.AllowDependencies = False,
    allow_kind: o.AllowedKinds = None,
    command: o.Commands = None,
    patch: o.Patch = None,
    reply: o.Replies = None,
    head: o.HeadBranch = None,
    approval: o.Approval = None,
    provide: o.ProvidedFiles = None,
    test: o.Tests = None,
    shards: o.Shards = 1,
    workers: o.Workers = None,
    env: Environments = None,
    land: o.LandingMode = o.Landing.BRANCH,
    target_ref: o.TargetRef = None,
    policy_pack: o.PackOption = o.PackName.LOW,
    priority: o.RunPriority = Class.NORMAL,
    max_retries: o.MaxRetries = None,
    timeout: o.TaskSeconds = 300.0,
    max_seconds: o.MaxSeconds = None,
    max_tokens: o.MaxTokens = None,
    max_cost: o.MaxCost = None,
    max_iterations: o.MaxIterations = None,
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
        provide=tuple(provide or ()),
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
