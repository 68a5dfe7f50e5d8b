"""``gatewright run``: from options to a session and a flow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gatewright.app.cli import settings
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.options import REVERTING, RevertOptions
from gatewright.app.cli.outcome import Exit, exit_of_error
from gatewright.app.cli.output import complain, is_interactive, note, write_line
from gatewright.app.cli.run.change_source import PATCH, candidate_count, repository_folder, written_files
from gatewright.app.cli.run.display import Display, make_display
from gatewright.app.cli.run.preflight import require_sandbox, uncommitted_words
from gatewright.app.cli.run.questions import require_terminal
from gatewright.app.cli.run.request import (
    EXAMPLE,
    Prepared,
    again_request,
    prepare,
    result_attachment,
    with_artifacts,
    with_shown,
)
from gatewright.app.cli.run.run_flow import (
    RunFlow,
    can_propose,
    confirm_proposal,
    key_lines,
    leaves_open,
    proposal_lines,
    proposed_tests,
    with_origin,
)
from gatewright.app.cli.runs.result import refused_result
from gatewright.app.cli.session import attach_client, for_one_run, refuse_live
from gatewright.app.cli.settings import (
    AgentSettings,
    host_installer,
    inherited_environment,
    installer_environment,
    model_keys,
    operator_access,
    repository_keys,
)
from gatewright.app.cli.user_git import author, person_names, user_checkout, user_name, who_orders, with_user_signing
from gatewright.app.stack.fork_server import Ahead
from gatewright.app.stack.own_policies import write_own_policies
from gatewright.app.stack.state import read
from gatewright.app.stack.supervisor import StackOptions
from gatewright.contracts import GateReport
from gatewright.ecosystems.port import TreeFiles
from gatewright.errors import DeniedError, Fault, GatewrightError, MalformedError
from gatewright.order_form.run_options import RunOptions, order_rows
from gatewright.order_form.words import command_line
from gatewright.reasons import RetryOffer, advice_for, family_of, offers_for
from gatewright.resources import policy_directory
from gatewright.tasks.inputs import reference
from gatewright.view.retry import retry_label, retry_line, retry_options
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable
from gatewright.view.sentences import violation_lines
from gatewright.view.stages import refusal_stages, stage_text

#: Makes the questions at the terminal of a run on the stack of a home folder.
PlaceAsks = Callable[[CommandContext, Display], AbstractAsyncContextManager[Callable[[RunView], None]]]


async def start_run(
    options: RunOptions,
    *,
    json_output: bool,
    ahead: Ahead,
    verbose: bool = False,
    linger: float = 0.0,
    ask: PlaceAsks | None = None,
    revert: WantedRevert | None = None,
) -> Exit:
    """Check the options, then carry out the run; return the exit code. Errors are reported in the requested form.

    An incomplete request is completed by a proposal first; with ``options.yes`` the proposal is run as well.

    Args:
        ahead: fork server of the first stack, if it was started already.
        linger: idle minutes until a stack that this run starts ends.
        ask: asks the person at the terminal about the run's requests.
        revert: the run that the order reverts; ``options`` are those of the revert then.
    """
    asked = None if json_output else ask
    once = partial(_run_once, json_output=json_output, verbose=verbose, ahead=ahead, linger=linger, ask=asked)
    code, view = await once(options, revert=revert)
    if view is None or not view.proposed or not options.yes:
        return code
    if not json_output:
        write_line("proposed, and run because of --yes:")
        for line in proposal_lines(view.proposed):
            write_line(line)
    code, _ = await once(confirm_proposal(options, view.proposed), origin=view)
    return code


async def _run_once(
    options: RunOptions,
    *,
    json_output: bool,
    verbose: bool,
    ahead: Ahead,
    linger: float,
    ask: PlaceAsks | None,
    origin: RunView | None = None,
    revert: WantedRevert | None = None,
) -> tuple[Exit, RunView | None]:
    command = command_line(options) if revert is None else revert.command
    display = make_display(json_output=json_output, command=command, verbose=verbose)
    try:
        if options.interactive:
            require_terminal(json_output=json_output)
        place = find_place()
        cassette = options.cassette or AgentSettings.load().cassette
        ready = _ready(options, place, cassette, display.note) if revert is None else _prepare_revert(revert, place)
        prepared = await ready
        prepared = prepared if origin is None else with_origin(prepared, origin)
    except GatewrightError as error:
        # Imported late: a complete request proposes nothing.
        from gatewright.ecosystems.detection import first_way

        offered = revert is None and RetryOffer.TEST in offers_for(error.reason)
        tests = await proposed_tests(error, options, find_place().here) if offered else ()
        retry_with = tuple(word for each in first_way(tests) for word in (RetryOffer.TEST.value, each)) or _openings(error)
        display.give_up(refused_result(error, retry_with))
        if not json_output:
            _print_refusal(error, options, tests, retry_with) if revert is None else complain(error)
        return exit_of_error(error), None
    if words := uncommitted_words(prepared.request.repository.url, prepared.request.baseline_ref):
        note(words)
    environment = prepared.request.environment
    stack = StackOptions(
        home=place.home,
        base_environment={**inherited_environment(), **_playing(cassette)},
        model_keys=model_keys() if cassette is None else {},
        repository_keys=with_user_signing(repository_keys(), Path(prepared.request.repository.url)),
        workers=options.workers or min(max(options.shards, candidate_count(options.candidates)), os.cpu_count() or 1),
        environments=tuple(Path(each.prefix) for each in environment.all) if environment is not None else (),
        adopt=True,
        ahead=ahead,
        puller=installer_environment() if prepared.request.network != "deny" or linger else None,
        owner_rule=is_interactive(),  # A run of a script would wait for a day.
    )
    # A stack that replays recorded calls is for this run alone.
    minutes, announced = linger if cassette is None else 0.0, list[str]()
    session = for_one_run(place.bus, stack, display.note, linger=minutes, announce=announced.append)
    asked = partial(ask, place) if ask is not None and place.bus is None else None
    flow = RunFlow(prepared, session, display, json_output=json_output, asked=asked)
    code = await flow.carry_out()
    for words in announced:
        note(words)
    return code, flow.view


@dataclass(frozen=True, slots=True)
class WantedRevert:
    """A ``gatewright revert`` as given. ``repo``: present address of the repository."""

    run: str
    options: RevertOptions
    target_ref: str | None
    repo: str | None
    reason: str

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command, to which a retry line adds options."""
        given = {"target-ref": self.target_ref, "repo": self.repo, "reason": self.reason, "land": self.options.land}
        words = (f"--{name}={value}" for name, value in given.items() if value)
        return (
            "gatewright",
            "revert",
            self.run,
            *words,
            *command_line(replace(self.options.order, land=RunOptions().land))[2:],
        )


async def _prepare_revert(wanted: WantedRevert, place: CommandContext) -> Prepared:
    """Return the request that reverts a run. Raises as ``prepare_revert`` does."""
    # Imported late: no other run needs it.
    from gatewright.app.cli.bundle_sources import read_run
    from gatewright.client.reverts import RevertChoices, prepare_revert

    run = await read_run(wanted.run)
    top = repository_folder(wanted.repo, place.here)
    person = await asyncio.to_thread(author, top or place.here)
    choices = RevertChoices(
        requested_by=user_name(),
        ordered_by=person_names(person),
        author=person,
        reason=wanted.reason,
        repository=str(top.resolve()) if top is not None and wanted.repo is not None else wanted.repo,
        landing=wanted.options.land,
        target_ref=wanted.target_ref,
        **{name: getattr(wanted.options.order, name) for name in REVERTING - {"land"}},
    )
    prepared = Prepared(*await prepare_revert(run, choices, operator_access()))
    await _prepare_host(place, None)
    return prepared


def _print_refusal(error: GatewrightError, options: RunOptions, tests: Sequence[str], retry_with: Sequence[str]) -> None:
    """Print why no run began, and the command to retry with, on standard error."""
    refused = getattr(error, "lines", ())
    for words in refused:
        write_line(words, stream=sys.stderr)
    if not refused:
        complain(error, {f"/{row.pointer.replace('.', '/')}": row.flag for row in order_rows() if row.flags})
    for each in tests:
        write_line(f"  detected  {printable(each)}", stream=sys.stderr)
    if retry_with:
        write_line(f"{retry_label(retry_with)}: {printable(retry_line(command_line(options), retry_with))}", stream=sys.stderr)
    elif options.task_type == "IMPLEMENT" and any(fault.code == "missing" for fault in getattr(error, "faults", ())):
        write_line(f"  example: {EXAMPLE}", stream=sys.stderr)
    if leaves_open(options) and error.reason == "invalid_input":
        for each in key_lines():
            write_line(f"  {printable(each)}", stream=sys.stderr)


async def _ready(options: RunOptions, place: CommandContext, cassette: Path | None, note: Callable[[str], None]) -> Prepared:
    """Check the request and this host, slow checks last. Raises GatewrightError."""
    plays, local = cassette is not None, place.bus is None
    if options.again is not None:
        prepared = await _prepare_again(options, options.again)
        await _prepare_host(place, cassette)
        return prepared
    # The pm of a remote system decides itself whether it can ask a model.
    propose = leaves_open(options) and (not local or can_propose(plays=plays))
    follows = AUTO in options.env
    prepared = prepare(options, place.here, on_this_host=local, propose=propose, plays=plays, environment_follows=follows)
    prepared = replace(prepared, attachments=(*prepared.attachments, *[await _read_result(each) for each in options.inputs]))
    await _prepare_host(place, cassette)
    if not follows:
        return prepared
    made = await with_environment(options, place, note, first=partial(_judge_first, prepared, options, place))
    return with_shown(prepared, made, place.here, elsewhere=frozenset() if local else frozenset(made.env) - {*options.env})


async def _prepare_again(options: RunOptions, wanted: str) -> Prepared:
    """Return the request of a new round of an earlier run. Raises GatewrightError."""
    # Imported late: most runs repeat none.
    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.runs.sources import find_run

    if replace(options, again=None, linger=None, workers=None, cassette=None) != RunOptions():
        fault = Fault("/again", "ambiguous", "--again repeats the request as it was: give no other option of the change")
        raise MalformedError("this cannot be run", faults=(fault,), code="invalid_input")
    async with open_source(wanted) as source:
        view = await source.view(await find_run(source, wanted))
    return Prepared(again_request(view.run, user_name(), await asyncio.to_thread(who_orders, find_place().here)), ())


async def _read_result(wanted: str) -> tuple[str, bytes]:
    """Return the name and content of an earlier run's result. Raises as ``result_attachment`` does."""
    # Imported late: most runs read none.
    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.runs.result import read_findings
    from gatewright.app.cli.runs.sources import find_run, run_of

    async with open_source(wanted) as source:
        view = await source.view(await find_run(source, run_of(wanted)))
        return result_attachment(view.run, await read_findings(view, source.output) if view.run.kind.searches else None)


async def _prepare_host(place: CommandContext, cassette: Path | None) -> None:
    _check_played(cassette, place)
    if place.bus is None:
        if read(place.home) is None:
            # The roles of a running stack have tested it at their start.
            await require_sandbox()
        make_home(place.home)


async def _judge_first(prepared: Prepared, options: RunOptions, place: CommandContext) -> None:
    """Raise EarlyRefusalError if the gates refuse the run in any environment."""
    if leaves_open(options):
        return
    await asyncio.to_thread(refuse_early, prepared, _policies_of(place))


def _policies_of(place: CommandContext) -> Path:
    """The folder of the policies that the stack of the home has, or will have. Raises ConfigurationError."""
    state = read(place.home)
    if state is not None and state.policies:
        return Path(state.policies)
    if (named := settings.load().policies) is not None:
        return named
    return write_own_policies(place.home, place.key) if is_interactive() else policy_directory()


def _openings(error: GatewrightError) -> tuple[str, ...]:
    """Return the options that would allow what the gates refused early."""
    return retry_options(getattr(error, "report", None))


def _check_played(cassette: Path | None, place: CommandContext) -> None:
    """Raise MalformedError if there is nothing to replay, or if a running system could ask models."""
    if cassette is None:
        return
    # Imported late: only a run that replays needs it.
    from gatewright.models.cassettes.playback import found_cassettes

    found_cassettes(cassette)
    refuse_live(place.bus, place.home, cassette)


def _playing(cassette: Path | None) -> dict[str, str]:
    return {} if cassette is None else {"GATEWRIGHT_CASSETTE": str(cassette.absolute())}


# ``--env auto`` of a run: the option is replaced by environments that are made for the commit that the run starts from.
# Version files that only the project's build would write are provided in addition, from git's tags.
#: The value that requests a new environment; a folder of that name is ``./auto``.
AUTO = Path("auto")


async def with_environment(
    options: RunOptions,
    place: CommandContext,
    note: Callable[[str], None],
    *,
    first: Callable[[], Awaitable[None]] | None = None,
) -> RunOptions:
    """Return the options with existing environments. ``first`` is awaited before anything is installed, only if needed.

    Raises NotPreparedError, MalformedError, GitError, BusError, and as ``first`` does.
    """
    if AUTO not in options.env:
        return options
    top = repository_folder(options.repo, place.here)
    if place.bus is None:
        make_home(place.home)
    async with _baseline(options, top) as tree:
        made = await _environments_for(place, tree, (*options.tests, *options.commands), note, first=first)
    given = (made if each == AUTO else (each,) for each in options.env)
    written: tuple[tuple[str, bytes], ...] = ()
    if top is not None:
        ref = await asyncio.to_thread(user_checkout(top).exact_ref, options.ref)
        written = await written_files(top, ref, options.provide, note)
    return replace(options, env=tuple(dict.fromkeys(prefix for each in given for prefix in each)), written=written)


@contextlib.asynccontextmanager
async def _baseline(options: RunOptions, top: Path | None) -> AsyncIterator[TreeFiles]:
    """Yield the files that the run starts from: of the repository ``top`` on this host, else of a copy, which is removed."""
    # Imported late: no other run needs it.
    from gatewright.app.environments.baseline_tree import MOST_BYTES, baseline_tree
    from gatewright.git.mirror import Mirrors
    from gatewright.git.mirror_tree import list_tree

    if top is not None:
        checkout = user_checkout(top)
        yield await asyncio.to_thread(lambda: baseline_tree(checkout, checkout.exact_ref(options.ref)))
        return
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as scratch:
        mirror = await Mirrors(Path(scratch), access=operator_access()).open(options.repo or "")
        yield await list_tree(mirror, await mirror.resolve(options.ref), largest=MOST_BYTES)


async def _environments_for(
    place: CommandContext,
    tree: TreeFiles,
    commands: tuple[str, ...],
    note: Callable[[str], None],
    *,
    first: Callable[[], Awaitable[None]] | None,
) -> tuple[Path, ...]:
    """Return the environments for ``commands`` on ``tree``; for a bus that was named, the puller prepares them."""
    # Imported late: no other run needs it.
    from gatewright.app.environments.order import check_result, environment_order
    from gatewright.app.environments.prepare import prepare_environments

    if place.bus is not None:
        order = await environment_order(tree, commands)
        async with attach_client(place.bus, place.home) as client:
            return check_result(order, await client.order_environments(order, note))
    installer = host_installer(_policies_of(place))
    return await prepare_environments(place.home.resolve(), tree, commands, installer, note, first=first)


# The verdicts of the gates before an environment is made: scope, protected paths, contract, patch and allowlist need none.
#: Codes about artifacts, which are stored only when the run begins.
_OF_STORES = frozenset({"artifact_missing", "artifact_invalid"})


class EarlyRefusalError(DeniedError):
    """The gates refuse this run for any result of its commands; ``report`` is the first refusal."""

    def __init__(self, report: GateReport, allowed: tuple[str, ...] = ()) -> None:
        lines = "".join(f"\n  {line}" for line in violation_lines(report))
        super().__init__(f"refused before an environment was made: {report.summary}{lines}", code=report.violations[0].code)
        self.report = report
        self._allowed = allowed

    @property
    def lines(self) -> list[str]:
        """Return the refusal as the lines of a run."""
        advice = advice_for(self.reason)
        ends = ["Nothing landed. The run did not start."]
        ends += [f"Advice:   {advice}"] if advice and not retry_options(self.report) else []
        return [*map(stage_text, refusal_stages(self.report, self._allowed)), "", *ends]


def refuse_early(prepared: Prepared, policies: Path) -> None:
    """Check the request and its patch, if it is known, with the gates. Blocks.

    An environment takes minutes and hundreds of MB, which a run that is refused for its paths does not need. The gates' own
    code decides, with the policies that the run will have. Checks that are not possible here are left to the run. This step
    refuses early, and permits nothing.

    Raises:
        EarlyRefusalError: a gate refuses the run.
        MalformedError: no contract can be made of the request.
    """
    # Imported late: only a run whose environment is not made yet needs the gates in this process.
    from gatewright.app.cli.dry_run import ChangeLocation, ask_gates, read_contract

    attached = dict(prepared.attachments)
    artifacts = tuple(reference(name, data) for name, data in prepared.attachments)
    request = with_artifacts(prepared.request, artifacts)
    patch = attached.get(PATCH) if request.executor is not None and request.executor.kind == "patch" else None
    location = ChangeLocation(request.repository.url, request.baseline_ref, patch=patch)
    try:
        answer = ask_gates(read_contract(request), location, policies=policies, judge_policy=True)
    except GatewrightError as error:
        if error.family == "infrastructure" or error.reason in _OF_STORES:
            return  # The run meets the same error, and reports it with more context.
        raise
    report = _first_refusal(answer.reports)
    if report is not None:
        raise EarlyRefusalError(report, request.allowed_paths)


def _first_refusal(reports: Iterable[GateReport]) -> GateReport | None:
    """Return the first verdict against the change; a gate that could not judge refuses nothing here."""
    for report in reports:
        codes = [violation.code for violation in report.violations]
        if report.verdict != "PASS" and codes and not any(family_of(c) == "infrastructure" or c in _OF_STORES for c in codes):
            return report
    return None
