"""How a run is followed on the screen: as JSON lines, as plain lines, or as a live timeline on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, Self

from gatewright.app.cli.output import emit, say
from gatewright.app.cli.runs.result import RunResult, closing_words, result_of
from gatewright.app.cli.runs.waits import Wait, WaitNotice, wait_lines
from gatewright.contracts import AgentActivity, OrchestratorEvent
from gatewright.contracts.activity import MOMENTARY
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable
from gatewright.view.sentences import SIGNS, TimelineLine, activity_lines, lines

if TYPE_CHECKING:
    from types import TracebackType


class Display(Protocol):
    """Shows a run while it goes on. Used as a context, so that a terminal is always given back as it was."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def note(self, text: str) -> None:
        """Something about the command itself, not an event of the run."""

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        """One more event; ``view`` is the run after it."""

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        """What the run waits for has changed; empty once it waits for nothing."""

    def activity(self, view: RunView, said: AgentActivity) -> None:
        """What an agent says it does."""

    def asking(self) -> AbstractContextManager[None]:
        """While it is open, the terminal belongs to a question: nothing is drawn below what was printed."""

    def close(self, view: RunView) -> None:
        """The run is over, or is left as it stands."""

    def give_up(self, result: RunResult) -> None:
        """No run came to be."""


class JsonDisplay:
    """Every event as it is, one a line; the last line is the result."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass

    def note(self, text: str) -> None:
        say(printable(text), stream=sys.stderr)

    def show(self, record: OrchestratorEvent, view: RunView) -> None:  # noqa: ARG002 - the event says it all
        emit(record)

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        emit(WaitNotice(view.run.run_id, tuple(waits)))

    def activity(self, view: RunView, said: AgentActivity) -> None:
        """Nothing: lines are events of the run, and this is none."""

    def asking(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self, view: RunView) -> None:
        emit(result_of(view))

    def give_up(self, result: RunResult) -> None:
        emit(result)


class PlainDisplay:
    """One line an event, without any control sequence: for logs and pipes. ``command`` began the run, where it is known."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = tuple(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass

    def note(self, text: str) -> None:
        say(printable(text))

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        for line in lines(record, view):
            say(plain(line))

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:  # noqa: ARG002 - the lines say it all
        for words in wait_lines(waits):
            say(words)

    def activity(self, view: RunView, said: AgentActivity) -> None:
        for line in activity_lines(view, said) if said.event not in MOMENTARY else ():
            say(plain(line))

    def asking(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self, view: RunView) -> None:
        say()
        for words in closing_words(view, self._command):
            say(words)

    def give_up(self, result: RunResult) -> None:
        """Nothing: the error itself is reported."""


def plain(line: TimelineLine) -> str:
    """``[  0.31s] S2 execute  ✔ diff gate: ok``."""
    who = f"{line.who}: " if line.who else ""
    return f"[{line.at:7.2f}s] {line.stage:<10} {SIGNS[line.mark]} {printable(who)}{line.text}"


def make_display(*, json_output: bool, command: Sequence[str] = ()) -> Display:
    """The display that suits where standard output goes; ``command`` is the one that began the run."""
    if json_output:
        return JsonDisplay()
    if sys.stdout.isatty():
        # Imported late: only a terminal pays for drawing on it.
        from gatewright.app.cli.run.live import LiveDisplay

        return LiveDisplay(command=command)
    return PlainDisplay(command)
