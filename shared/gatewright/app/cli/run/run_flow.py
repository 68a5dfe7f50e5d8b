"""``gatewright run`` from the first check to the closing lines: a stack, one run on it, Ctrl-C at any moment.

It decides nothing about the run. The first interrupt asks the gatekeeper to abort and waits for the sealed bundle; a second one
exits immediately. In every case, a stack that it started is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from gatewright.app.cli.outcome import Exit, exit_of_error, exit_of_run
from gatewright.app.cli.output import complain, discard_output
from gatewright.app.cli.run.display import Display
from gatewright.app.cli.run.following import events_to_the_seal, report_activity, report_waits
from gatewright.app.cli.run.proposing import with_proposal
from gatewright.app.cli.run.questions import TerminalQuestions
from gatewright.app.cli.run.request import Prepared, with_artifacts
from gatewright.app.cli.runs.result import refused_result, with_details
from gatewright.app.cli.runs.waits import WaitFinder
from gatewright.app.cli.session import STARTING_PATIENCE, StackSession
from gatewright.client.client import Client
from gatewright.errors import BusError, DeniedError, GatewrightError
from gatewright.view.run_view import RunView, advance

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
        self.display.give_up(replace(refused_result(error), run_id=self._run_id))
        if not self.json_output:
            complain(error)
        return exit_of_error(error)


@contextlib.asynccontextmanager
async def _no_person_asked(_display: Display) -> AsyncIterator[Callable[[RunView], None]]:
    yield lambda _view: None


class _LeftError(Exception):
    """Interrupted before the run began."""
