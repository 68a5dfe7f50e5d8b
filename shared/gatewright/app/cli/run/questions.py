"""Permission requests of an agent as questions at the terminal, one after the other.

Only ``y`` or ``yes``, typed after the question was printed, grants permission, and only once. Any other answer, Ctrl-C, the end
of the input and silence refuse. Unprintable characters of an agent's text are escaped.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final

from gatewright.app.cli.output import write_line
from gatewright.app.cli.run.display import Display
from gatewright.app.cli.terminal import forget_typed, is_interactive, typed_line
from gatewright.client.client import Client
from gatewright.contracts import AgentQuestion
from gatewright.errors import BusError, MalformedError
from gatewright.view.safe_text import printable

NO_TERMINAL: Final = "no_terminal"
#: Maximum queued questions behind the current one; a worker asks one at a time.
_MOST_WAITING: Final = 64
_YES: Final = frozenset({"y", "yes"})


def require_terminal(*, json_output: bool) -> None:
    """Raise MalformedError (``no_terminal``) if no person can be asked."""
    if json_output:
        raise MalformedError("--interactive asks at a terminal, and --json prints for programs", code=NO_TERMINAL)
    if not is_interactive():
        words = "--interactive asks at a terminal: standard input or standard output is none"
        raise MalformedError(words, code=NO_TERMINAL)


class TerminalQuestions:
    """The questions of one run. ``display`` releases the terminal during a question."""

    def __init__(self, client: Client, run_id: str, display: Display) -> None:
        self._client = client
        self._run_id = run_id
        self._display = display
        self._turn = asyncio.Lock()
        self._refused: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    @contextlib.asynccontextmanager
    async def answer_meanwhile(self) -> AsyncIterator[None]:
        """Answer questions during the body."""
        await self._client.hear_questions(self._hear)
        try:
            yield
        finally:
            self._ended = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def refuse_open(self) -> bool:
        """Refuse the open question, as Ctrl-C does; return False without one."""
        if self._refused is None:
            return False
        self._refused.set()
        return True

    async def _hear(self, question: AgentQuestion) -> None:
        if question.run_id != self._run_id or self._ended or len(self._tasks) >= _MOST_WAITING:
            return
        task = asyncio.create_task(self._put(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _put(self, question: AgentQuestion) -> None:
        deadline = asyncio.get_running_loop().time() + question.seconds
        allow = False
        async with self._turn:
            left = deadline - asyncio.get_running_loop().time()
            if left > 0 and not self._ended:
                with self._display.asking():
                    allow = await self._ask_person(question, left)
        with contextlib.suppress(BusError):
            await self._client.answer_question(question, allow=allow)

    async def _ask_person(self, question: AgentQuestion, seconds: float) -> bool:
        write_line(f"? {printable(question.agent)} asks leave to run: {printable(question.subject)}")
        forget_typed(sys.stdin.fileno())  # Input at the prompt is an answer.
        write_line(f"  allow it this once? [y/N] ({seconds:.0f} s, Ctrl-C refuses)")
        self._refused = asyncio.Event()
        refused = asyncio.create_task(self._refused.wait())
        typed = asyncio.create_task(typed_line(sys.stdin.fileno()))
        try:
            done, _ = await asyncio.wait({refused, typed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._refused = None
            for task in (refused, typed):
                task.cancel()
            await asyncio.gather(refused, typed, return_exceptions=True)
        allow = typed in done and refused not in done and typed.result().strip().lower() in _YES
        write_line("  allowed, this once" if allow else "  refused" if done else "  refused: no answer came")
        return allow
