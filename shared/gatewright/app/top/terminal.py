"""The program in the terminal: its screens, what its keys ask for, and how it gives the terminal back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import App, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.worker import Worker, WorkerError

from gatewright.app.top.lines import line
from gatewright.app.top.lists_screen import ListsScreen
from gatewright.app.top.questions import BOX_CSS, AbortScreen, ApproveScreen, WordsScreen
from gatewright.app.top.sources import TopSources
from gatewright.app.top.steering import Steering
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalSummary
from gatewright.errors import GatewrightError

_WHY_ABORTED: Final = "requested on the board in a terminal"
HELP: Final = """j k, arrows   next, previous line     Enter   one run
Tab           next list, next part    Esc     back
g b  runs     g n  needs you     g m  merge queues
g u  queues   g w  at work
/             only runs that hold a text (Enter on nothing: all)
a             approve the request: signed with your key
x             end a run, after a question
?  this       q, Ctrl-C  leave; runs go on

A request is rejected with `gatewright approvals reject`."""


class TopApp(App[None]):
    """``sources`` feed it; ``steering`` has its actions."""

    CSS = BOX_CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", show=False, priority=True)]

    def __init__(self, sources: TopSources, steering: Steering) -> None:
        super().__init__()
        self.sources, self.steering = sources, steering
        self._feeding: Worker[None] | None = None

    async def on_mount(self) -> None:
        self._hear_signals()
        self._feeding = self.run_worker(self.sources.run(), name="sources", exclusive=True)
        await self.push_screen(ListsScreen(self.sources))

    async def on_unmount(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
            with contextlib.suppress(WorkerError):
                await self._feeding.wait()

    def action_help(self) -> None:
        self.push_screen(WordsScreen(HELP))

    def ask_abort(self, run_id: str) -> None:
        """Ask, and end a run on a yes."""
        board = self.sources.board
        row = board.rows.get(run_id) if board is not None else None
        if not self.steering.may_abort:
            self.show_message("This is only for looking (--read-only).")
        elif row is None or not row.is_open:
            self.show_message(f"{run_id} goes on no more: there is nothing to end.")
        else:
            self.push_screen(AbortScreen(run_id, row.request), lambda yes: self._answered_abort(run_id, yes=bool(yes)))

    def ask_approve(self, request_id: str) -> None:
        """Show the request, and send a signed approval if confirmed. Empty id: nothing can be approved here."""
        found = self._request(request_id)
        if self.steering.approve is None:
            self.show_message("This is only for looking (--read-only).")
        elif found is None:
            self.show_message("Nothing here waits for an approval. The list of needs shows what does: g n")
        elif found[0].reason == "review":
            self.show_message(f"This is a vote of a panel, which wants reasons:\n\n  gatewright review vote {request_id}")
        else:
            asked = ApproveScreen(*found, self.steering.signer)
            self.push_screen(asked, lambda phrase: self._answered_approve(request_id, phrase))

    def show_message(self, message: str) -> None:
        """Show a message until a key is pressed."""
        self.push_screen(WordsScreen(message))

    def with_terminal(self, work: Callable[[], Any]) -> Any:
        """Do work with the terminal in its normal state; the board always returns.

        Ctrl-C ends the program that uses the terminal, not the board.
        """
        failed: GatewrightError | OSError | None = None
        done: Any = None
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(SuspendNotSupported):
                stack.enter_context(self.suspend())
            self._leave_interrupts()
            try:
                done = work()
            except (GatewrightError, OSError) as error:
                failed = error
            finally:
                # As a timer: pending input is processed first.
                asyncio.get_running_loop().call_later(0, self._hear_signals)
        if failed is not None:
            raise failed
        return done

    def _hear_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError):  # another thread's loop hears no signals
                loop.add_signal_handler(each, self.exit)

    def _leave_interrupts(self) -> None:
        with contextlib.suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            # Not ignored: the started program would inherit that.
            signal.signal(signal.SIGINT, lambda _number, _frame: None)

    def _request(self, request_id: str) -> tuple[ApprovalRequest, ApprovalSummary] | None:
        board = self.sources.board
        rows = board.rows.values() if board is not None else ()
        asked = (each for row in rows for each in zip(row.asks, row.summaries, strict=True))
        return next((each for each in asked if each[0].request_id == request_id), None)

    def _answered_abort(self, run_id: str, *, yes: bool) -> None:
        if yes:
            self.run_worker(self._abort(run_id))

    def _answered_approve(self, request_id: str, phrase: str | None) -> None:
        if phrase is not None:
            self.run_worker(self._approve(request_id, phrase))

    async def _abort(self, run_id: str) -> None:
        try:
            await self.sources.link.client.abort(run_id, _WHY_ABORTED)
        except GatewrightError as error:
            self.show_message(f"{run_id} was not ended [{error.reason}]: {line(error.message)}")

    async def _approve(self, request_id: str, phrase: str) -> None:
        approve = self.steering.approve
        assert approve is not None  # noqa: S101 - asked for before
        try:
            self.show_message(await approve(request_id, phrase, self.with_terminal))
        except GatewrightError as error:
            self.show_message(f"{request_id} was not approved [{error.reason}]: {line(error.message)}")
        except OSError as error:
            self.show_message(f"{request_id} was not approved: {line(str(error))}")
