"""How a run is shown while it goes on: as JSON lines, as plain lines, or with live lines on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from gatewright.app.cli.output import emit, say, terminal_width
from gatewright.app.cli.runs.result import RunResult, closing_words, result_of
from gatewright.app.cli.runs.waits import Wait, WaitNotice, wait_lines
from gatewright.contracts import AgentActivity, OrchestratorEvent
from gatewright.contracts.activity import MOMENTARY
from gatewright.view.run_view import RunView, StageLine
from gatewright.view.safe_text import printable
from gatewright.view.sentences import activity_lines, event_text, lines
from gatewright.view.stages import PAGE_WIDTH, stage_lines, stage_text, title_lines


class Display(Protocol):
    """Shows a run while it goes on. It is a context, which restores the terminal at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Restore the terminal."""
        return

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
        return nullcontext()

    def close(self, view: RunView) -> None:
        """The run is over, or is left as it stands."""

    def give_up(self, result: RunResult) -> None:  # noqa: ARG002 - only programs read it
        """No run began. The error itself is reported elsewhere."""
        return


class JsonDisplay(Display):
    """Every event as it is, one a line; the last line is the result."""

    def note(self, text: str) -> None:
        say(printable(text), stream=sys.stderr)

    def show(self, record: OrchestratorEvent, view: RunView) -> None:  # noqa: ARG002 - the event says it all
        emit(record)

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        emit(WaitNotice(view.run.run_id, tuple(waits)))

    def activity(self, view: RunView, said: AgentActivity) -> None:
        """Nothing: lines are events of the run, and this is none."""

    def close(self, view: RunView) -> None:
        emit(result_of(view))

    def give_up(self, result: RunResult) -> None:
        emit(result)


class PlainDisplay(Display):
    """One line a stage, or a line an event where it is ``verbose``, without control sequences: for logs and pipes.

    ``command`` began the run, where it is known.
    """

    def __init__(self, command: Sequence[str] = (), *, verbose: bool = False) -> None:
        self._command = tuple(command)
        self._verbose = verbose
        self._titled = verbose

    def note(self, text: str) -> None:
        say(printable(text))

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        if not self._titled:
            self._titled = True
            say("\n".join([*title_lines(view.run, terminal_width() or PAGE_WIDTH), ""]))
        for line in lines(record, view) if self._verbose else ():
            say(event_text(line))
        for stage in stage_lines(record, view) if not self._verbose else ():
            say(stage_text(stage, terminal_width()))

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:  # noqa: ARG002 - the lines say it all
        for words in wait_lines(waits):
            say(words)

    def activity(self, view: RunView, said: AgentActivity) -> None:
        for line in activity_lines(view, said) if said.event not in MOMENTARY else ():
            if self._verbose:
                say(event_text(line))
            elif line.mark == "warn":
                say(stage_text(StageLine(line.mark, line.who, line.text), terminal_width()))

    def close(self, view: RunView) -> None:
        say()
        for words in closing_words(view, self._command, width=terminal_width()):
            say(words)


def make_display(*, json_output: bool, command: Sequence[str] = (), verbose: bool = False) -> Display:
    """The display that suits where standard output goes; ``command`` is the one that began the run."""
    if json_output:
        return JsonDisplay()
    if sys.stdout.isatty():
        # Imported late: only a terminal pays for drawing on it.
        from gatewright.app.cli.run.live import LiveDisplay

        display = LiveDisplay(command=command, verbose=verbose)
        if display.can_draw:
            return display
    return PlainDisplay(command, verbose=verbose)
