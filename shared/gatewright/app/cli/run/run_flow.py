"""``gatewright run`` from the first check to the closing lines: a stack, one run on it, Ctrl-C at any moment.

It decides nothing about the run. The first interrupt asks the gatekeeper to abort and waits for the sealed bundle; a second one
exits immediately. In every case, a stack that it started is stopped.

An incomplete request may be completed by a proposal: a run that ends with ``proposal_unconfirmed``, whose bundle has the
questions and answers. Nothing is run from it until its requester passes the proposed options, or ``--yes``. Without a test
command, the commands that test the baseline are proposed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.outcome import Exit, exit_of_error, exit_of_run
from gatewright.app.cli.output import complain, discard_output
from gatewright.app.cli.run.display import Display
from gatewright.app.cli.run.following import events_to_the_seal, report_activity, report_waits
from gatewright.app.cli.run.questions import TerminalQuestions
from gatewright.app.cli.run.request import Prepared, ways_named, with_artifacts
from gatewright.app.cli.runs.result import refused_result, with_details
from gatewright.app.cli.runs.waits import WaitFinder
from gatewright.app.cli.session import STARTING_PATIENCE, StackSession
from gatewright.app.cli.user_git import user_checkout
from gatewright.client.client import Client
from gatewright.contracts import RunRequest, codec
from gatewright.errors import BusError, DeniedError, GatewrightError, GitError, MalformedError
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row
from gatewright.run import events as e
from gatewright.run.kinds import KINDS
from gatewright.view.run_view import RunView, advance
from gatewright.view.safe_text import printable

#: Maximum seconds until an aborted run has ended and is sealed.
ABORT_PATIENCE = 5.0
T = TypeVar("T")
#: Asks people at the terminal while it is open. It yields a function, which is called with the run after each event.
AskedPeople = Callable[[Display], contextlib.AbstractAsyncContextManager[Callable[[RunView], None]]]

#: Errors of writing to a pipe without a reader, and to a closed terminal.
_READER_GONE = frozenset({errno.EPIPE, errno.EIO})
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class RunFlow:
    """One execution of ``gatewright run``."""

    prepared: Prepared
    session: contextlib.AbstractAsyncContextManager[StackSession]
    display: Display
    json_output: bool
    #: Receives the run after each event, and asks the person at the terminal about its requests.
    asked: AskedPeople | None = None
    view: RunView | None = None
    _questions: TerminalQuestions | None = None
    _asked_to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    _run_id: str | None = None
    _in_session: bool = False
    _unread: BrokenPipeError | None = None

    async def carry_out(self) -> Exit:
        """Run it; return the exit code. Errors are reported here, in the requested form."""
        with self.display:
            work = asyncio.create_task(self._work())
            with self._interrupts(work):
                try:
                    await work
                except (asyncio.CancelledError, _LeftError):
                    return self._leave()
                except GatewrightError as error:
                    return self._fail(error)
            return self._close()

    async def _work(self) -> None:
        async with self.session as session:
            self._in_session = True
            run_id = self._run_id = await self._submit_once(session)
            await self._follow_run(session, run_id)
            if self.view is not None:
                self.view = await with_details(self.view, session.client.get_artifact)
                self.view = await with_proposal(self.view, session.client)

    async def _submit_once(self, session: StackSession) -> str:
        """Submit and return the run id. An interrupt checks whether the run was accepted: an unwanted run must not continue."""
        submitting = asyncio.create_task(self._submit(session.client, STARTING_PATIENCE))
        done = await self._await_first(submitting, session)
        if done is not None:
            return await done
        try:
            # The same idempotency key finds the run that may have been accepted, to abort it immediately.
            async with asyncio.timeout(ABORT_PATIENCE):
                return await self._submit(session.client, 0.0)
        except (BusError, TimeoutError):
            raise _LeftError from None

    async def _await_first(
        self, work: asyncio.Task[T], session: StackSession, patience: float | None = None
    ) -> asyncio.Task[T] | None:
        """Return ``work`` when it is done; None if it was cancelled by a stop, or if ``patience`` has run out.

        Raises the error of a stack that could not be kept alive meanwhile.
        """
        others: set[asyncio.Task[object]] = {asyncio.create_task(session.broken())}
        if patience is None:
            others.add(asyncio.create_task(self._asked_to_stop.wait()))
        try:
            done, _ = await asyncio.wait({work, *others}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                return work
            for task in done:
                task.result()
            return None
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _submit(self, client: Client, patience: float) -> str:
        attached = [await client.attach(name, data) for name, data in self.prepared.attachments]
        request = with_artifacts(self.prepared.request, tuple(attached))
        return await client.submit_request(request, patience=patience)

    async def _follow_run(self, session: StackSession, run_id: str) -> None:
        following = asyncio.create_task(self._show_events(session, run_id))
        try:
            done = await self._await_first(following, session)
            if done is None:
                if self._unread is None:
                    self.display.note("aborting the run; interrupt again to leave at once")
                await session.client.abort(run_id, "interrupted at the command line")
                done = await self._await_first(following, session, ABORT_PATIENCE)
            if done is not None:
                await done
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _show_events(self, session: StackSession, run_id: str) -> None:
        answering: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
        if self.prepared.request.interactive:
            self._questions = TerminalQuestions(session.client, run_id, self.display)
            answering = self._questions.answer_meanwhile()
        asked = self.asked if self.asked is not None and session.home is not None else _no_person_asked
        async with (
            answering,
            asked(self.display) as look,
            report_waits(
                WaitFinder(session.client.bus, session.home, session.client.merge_queues), lambda: self.view, self.display
            ),
            report_activity(session.client, run_id, session.home, lambda: self.view, self.display),
            contextlib.aclosing(events_to_the_seal(session.client, run_id, session.home)) as events,
        ):
            async for record in events:
                self.view = advance(self.view, record)
                if self._unread is None:
                    try:
                        self.display.show(record, self.view)
                    except OSError as error:
                        if error.errno not in _READER_GONE:
                            raise
                        # The output has no reader any more (``| head``, a closed terminal): the same as an interrupt.
                        self._unread = BrokenPipeError(errno.EPIPE, "the reader is gone")
                        discard_output()
                        self._asked_to_stop.set()
                look(self.view)

    @contextlib.contextmanager
    def _interrupts(self, work: asyncio.Task[None]) -> Iterator[None]:
        def interrupt() -> None:
            if self._questions is not None and self._questions.refuse_open():
                return
            if self._asked_to_stop.is_set() or not self._in_session:
                work.cancel()
            self._asked_to_stop.set()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupt)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _close(self) -> Exit:
        if self._unread is not None:
            raise self._unread
        assert self.view is not None  # noqa: S101 - the work ends well only after the first event
        self.display.close(self.view)
        if self._asked_to_stop.is_set():
            return Exit.FAILED
        return exit_of_run(self.view.failure_family)

    def _leave(self) -> Exit:
        if self.view is not None:
            self.display.close(self.view)
        else:
            error = DeniedError("interrupted before the run was accepted", code="aborted")
            self.display.give_up(refused_result(error))
            if not self.json_output:
                complain(error)
        return Exit.FAILED

    def _fail(self, error: GatewrightError) -> Exit:
        self.display.give_up(structs.replace(refused_result(error), run_id=self._run_id))
        if not self.json_output:
            complain(error)
        return exit_of_error(error)


@contextlib.asynccontextmanager
async def _no_person_asked(_display: Display) -> AsyncIterator[Callable[[RunView], None]]:
    yield lambda _view: None


class _LeftError(Exception):
    """Interrupted before the run began."""


UNCONFIRMED = "proposal_unconfirmed"
#: The options that a proposal may contain, and their titles.
_TITLES = {"allow": "paths", "tests": "test", "commands": "executor", "agent": "agent", "model": "model"}
#: Name of the completed request among the artifacts of the pm's answer.
PROPOSAL = "proposal.json"


def leaves_open(options: RunOptions) -> bool:
    """Return whether ``options`` have a request, but not all of its scope, maker and tests. A search has none of them."""
    if KINDS[options.task_type].searches:
        return False
    makes = ways_named(options) or not KINDS[options.task_type].works
    fixed = (options.allow or options.allow_tests) and options.tests and makes
    return bool(options.request.strip()) and not fixed


def can_propose(*, plays: bool = False) -> bool:
    """Return whether the pm of a new local stack could ask a model, or replay one. Raises ConfigurationError."""
    # Imported late: only an incomplete request needs it.
    from gatewright.models.policy import load_models
    from gatewright.service.settings import ServiceSettings
    from gatewright.structured.session import has_key

    settings = ServiceSettings.load()
    return "pm" in settings.consult and (plays or has_key(load_models(settings.policies), "pm", settings.pool))


def key_lines() -> list[str]:
    """Return advice for a proposal on a host where no model can be asked. Raises ConfigurationError."""
    from gatewright.models.policy import load_models
    from gatewright.policy_files import EnvironmentKey
    from gatewright.service.settings import ServiceSettings

    policy = load_models(ServiceSettings.load().policies).policy
    wanted = {model.provider for name in policy.route("pm") if (model := policy.model(name)) is not None}
    keys = [each.key for each in policy.providers if each.name in wanted]
    names = [key.environment for key in keys if isinstance(key, EnvironmentKey)]
    return [
        "a model can propose what is missing, but none can be asked here:",
        f"  1. set a key: export {' or '.join(names) or 'what models.json names'}=...",
        "  2. run the same command again: it prints a proposal, and runs nothing until you confirm it",
    ]


async def with_proposal(view: RunView, client: Client) -> RunView:
    """Return the view of an ended run with the options of its proposal, if it ended with one."""
    failure = view.run.failure
    if failure is None or failure.code != UNCONFIRMED:
        return view
    for record in await client.events(view.run.run_id):
        payload = e.event_of(record)
        if not isinstance(payload, e.TaskFailed) or payload.error.consultation is None:
            continue
        for artifact in payload.error.consultation.artifacts:
            if artifact.name == PROPOSAL:
                data = await client.get_artifact(artifact.uri)
                asked, whole = view.run.request, codec.decode(data, RunRequest)
                return replace(view, proposed=tuple(_options(asked, whole)) if asked is not None else ())
    return view


def confirm_proposal(options: RunOptions, proposed: Sequence[str]) -> RunOptions:
    """Return ``options`` completed by the proposed ones."""
    names = {row(name).flag: name for name in _TITLES}
    given: dict[str, list[str]] = {name: [] for name in _TITLES}
    for option, value in zip(proposed[::2], proposed[1::2], strict=True):
        given[names[option]].append(value)
    changed: dict[str, Any] = {
        name: (*getattr(options, name), *values) if row(name).kind.many else (values or [getattr(options, name)])[0]
        for name, values in given.items()
    }
    named = tuple(path for path in given["allow"] if path not in options.allow)
    return replace(options, yes=False, proposed=named, **changed)


def with_origin(prepared: Prepared, view: RunView) -> Prepared:
    """Return the confirmed request with the origin of its proposal among its artifacts."""
    origin = (f"proposed by {view.run.run_id}", shlex.join(view.proposed).encode())
    return replace(prepared, attachments=(*prepared.attachments, origin))


def proposal_lines(proposed: Sequence[str]) -> list[str]:
    """Format a proposal."""
    titles = {row(name).flag: title for name, title in _TITLES.items()}
    pairs = zip(proposed[::2], proposed[1::2], strict=True)
    return [f"  {titles.get(option, option):9} {printable(value)}" for option, value in pairs]


def _options(asked: RunRequest, whole: RunRequest) -> Iterator[str]:
    """Yield the proposed options; those of the requester are in the command already."""
    values = {
        "allow": whole.allowed_paths if not asked.allowed_paths else (),
        "tests": [test.cmd for test in whole.acceptance_tests] if not asked.acceptance_tests else (),
    }
    how = whole.executor if asked.executor is None else None
    if how is not None:
        values["commands"] = how.commands
        values["agent"] = (how.agent or ANY_AGENT,) if how.kind == "agent" else ()
        values["model"] = (how.model,) if how.model is not None else ()
    for name, given in values.items():
        for value in given:
            yield from (row(name).flag, value)


async def proposed_tests(error: GatewrightError, options: RunOptions, here: Path) -> tuple[str, ...]:
    """Return the commands that test the baseline, the best first, if ``error`` reports a missing one; else none."""
    missing = isinstance(error, MalformedError) and any(fault.pointer == "/acceptance_tests" for fault in error.faults)
    repository = find_repository(_repository_place(options, here))
    if not missing or repository is None:
        return ()
    # Imported late: few runs need it.
    from gatewright.ecosystems.detection import proposed_commands
    from gatewright.git.host.tree_at import tree_at

    try:
        return await proposed_commands(tree_at(user_checkout(repository), options.ref))
    except GitError:  # the error, or later the run, reports it
        return ()


def _repository_place(options: RunOptions, here: Path) -> Path:
    return here / Path(options.repo).expanduser() if options.repo else here
