"""``gatewright run`` from the first check to the closing words: a stack, one run on it, Ctrl-C at any moment.

It decides nothing about the run. The first interrupt asks the gatekeeper to abort and waits for the sealed bundle; a
second one leaves at once. However it ends, the stack that it started is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from gatewright.cli.display import Display
from gatewright.cli.outcome import Exit, exit_of_error, exit_of_run
from gatewright.cli.output import complain
from gatewright.cli.request import Prepared, with_artifacts
from gatewright.cli.result import refused
from gatewright.cli.session import Session
from gatewright.cli.view import RunView, advance
from gatewright.client.client import Client
from gatewright.errors import DeniedError, GatewrightError

#: Seconds that a started stack is given until its gatekeeper answers.
STARTING_PATIENCE = 30.0
#: Seconds that an aborted run is given to end and be sealed.
ABORT_PATIENCE = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class RunFlow:
    """One use of ``gatewright run``."""

    prepared: Prepared
    session: contextlib.AbstractAsyncContextManager[Session]
    display: Display
    json_output: bool
    view: RunView | None = None
    _asked_to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    _run_id: str | None = None

    async def carry_out(self) -> Exit:
        """Run it; the exit code. Errors are reported here, in the form that was asked for."""
        with self.display:
            work = asyncio.create_task(self._work())
            with self._interrupts(work):
                try:
                    await work
                except asyncio.CancelledError:
                    return self._leave()
                except GatewrightError as error:
                    return self._fail(error)
            return self._close()

    async def _work(self) -> None:
        async with self.session as session:
            run_id = await _unless_broken(self._submit(session.client), session)
            self._run_id = run_id
            if self._asked_to_stop.is_set():
                await session.client.abort(run_id, "interrupted while it was being submitted")
            await self._follow(session, run_id)

    async def _submit(self, client: Client) -> str:
        attached = [await client.attach(name, data) for name, data in self.prepared.attachments]
        request = with_artifacts(self.prepared.request, tuple(attached))
        return await client.submit_request(request, patience=STARTING_PATIENCE)

    async def _follow(self, session: Session, run_id: str) -> None:
        following = asyncio.create_task(self._show_events(session.client, run_id))
        stopping = asyncio.create_task(self._asked_to_stop.wait())
        broken = asyncio.create_task(session.broken())
        tasks = {following, stopping, broken}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopping in done and following not in done:
                self.display.note("aborting the run; interrupt again to leave at once")
                await session.client.abort(run_id, "interrupted at the command line")
                done, _ = await asyncio.wait({following, broken}, timeout=ABORT_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _show_events(self, client: Client, run_id: str) -> None:
        async with contextlib.aclosing(client.follow(run_id)) as events:
            async for record in events:
                self.view = advance(self.view, record)
                self.display.show(record, self.view)

    @contextlib.contextmanager
    def _interrupts(self, work: asyncio.Task[None]) -> Iterator[None]:
        def interrupt() -> None:
            if self._run_id is None or self._asked_to_stop.is_set():
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
        assert self.view is not None  # noqa: S101 - the work ends well only after the first event
        self.display.close(self.view)
        if self._asked_to_stop.is_set():
            return Exit.FAILED
        failure = self.view.run.failure
        return exit_of_run(failure.code if failure else None)

    def _leave(self) -> Exit:
        if self.view is not None:
            self.display.close(self.view)
        else:
            self.display.give_up(refused(DeniedError("interrupted before the run was accepted", code="aborted")))
        return Exit.FAILED

    def _fail(self, error: GatewrightError) -> Exit:
        self.display.give_up(refused(error))
        if not self.json_output:
            complain(error)
        return exit_of_error(error)


async def _unless_broken(work: Coroutine[Any, Any, str], session: Session) -> str:
    """The result of ``work``, or the error of a stack that could not be kept alive meanwhile."""
    working = asyncio.create_task(work)
    broken = asyncio.create_task(session.broken())
    try:
        done, _ = await asyncio.wait({working, broken}, return_when=asyncio.FIRST_COMPLETED)
        if working not in done:
            broken.result()
        return await working
    finally:
        working.cancel()
        broken.cancel()
        await asyncio.gather(working, broken, return_exceptions=True)
