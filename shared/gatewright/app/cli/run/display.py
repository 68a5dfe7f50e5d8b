"""Live display of a run: as JSON lines, as plain lines, or with live lines on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from gatewright.app.cli.output import emit, terminal_width, write_line
from gatewright.app.cli.runs.result import RunResult, closing_words, result_of
from gatewright.app.cli.runs.waits import Wait, WaitNotice, wait_lines
from gatewright.contracts import AgentActivity, OrchestratorEvent
from gatewright.contracts.activity import MOMENTARY
from gatewright.view.run_view import RunView, StageLine
from gatewright.view.safe_text import printable
from gatewright.view.sentences import activity_lines, event_text, lines
from gatewright.view.stages import PAGE_WIDTH, stage_lines, stage_text, title_lines


class Display(Protocol):
    """Displays a run while it goes on. As a context manager it restores the terminal at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Restore the terminal."""
        return

    def note(self, text: str) -> None:
        """Print a note about the command itself, not an event of the run."""

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        """Display one more event. ``view`` is the run after it."""

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        """Display what the run waits for, after a change; empty if it waits for nothing."""

    def activity(self, view: RunView, activity: AgentActivity) -> None:
        """Display the current activity that an agent reports."""

    def asking(self) -> AbstractContextManager[None]:
        """Reserve the terminal for a question inside the body; nothing is drawn below the question."""
        return nullcontext()

    def close(self, view: RunView) -> None:
        """End the display: the run is over, or is left as it is."""

    def give_up(self, result: RunResult) -> None:  # noqa: ARG002 - only programs read it
        """Display the result without a run. The error itself is reported elsewhere."""
        return


class JsonDisplay(Display):
    """Prints every event unchanged, one a line. The last line is the result."""

    def note(self, text: str) -> None:
        write_line(printable(text), stream=sys.stderr)

    def show(self, record: OrchestratorEvent, view: RunView) -> None:  # noqa: ARG002 - the event has all of it
        emit(record)

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        emit(WaitNotice(view.run.run_id, tuple(waits)))

    def activity(self, view: RunView, activity: AgentActivity) -> None:
        """Print nothing: lines are events of the run, and this is none."""

    def close(self, view: RunView) -> None:
        emit(result_of(view))

    def give_up(self, result: RunResult) -> None:
        emit(result)


class PlainDisplay(Display):
    """Prints one line a stage, or with ``verbose`` one line an event, without control sequences: for logs and pipes.

    ``command``: the one that started the run, where known.
    """

    def __init__(self, command: Sequence[str] = (), *, verbose: bool = False) -> None:
        self._command = tuple(command)
        self._verbose = verbose
        self._titled = verbose

    def note(self, text: str) -> None:
        write_line(printable(text))

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        if not self._titled:
            self._titled = True
            write_line("\n".join([*title_lines(view.run, terminal_width() or PAGE_WIDTH), ""]))
        for line in lines(record, view) if self._verbose else ():
            write_line(event_text(line))
        for stage in stage_lines(record, view) if not self._verbose else ():
            write_line(stage_text(stage, terminal_width()))

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:  # noqa: ARG002 - the lines have all of it
        for words in wait_lines(waits):
            write_line(words)

    def activity(self, view: RunView, activity: AgentActivity) -> None:
        for line in activity_lines(view, activity) if activity.event not in MOMENTARY else ():
            if self._verbose:
                write_line(event_text(line))
            elif line.mark == "warn":
                write_line(stage_text(StageLine(line.mark, line.who, line.text), terminal_width()))

    def close(self, view: RunView) -> None:
        write_line()
        for words in closing_words(view, self._command, width=terminal_width()):
            write_line(words)


def make_display(*, json_output: bool, command: Sequence[str] = (), verbose: bool = False) -> Display:
    """Choose the display for standard output. ``command``: the one that started the run."""
    if json_output:
        return JsonDisplay()
    if sys.stdout.isatty():
        # Imported late: only a terminal needs it.
        from gatewright.app.cli.run.live import LiveDisplay

        display = LiveDisplay(command=command, verbose=verbose)
        if display.can_draw:
            return display
    return PlainDisplay(command, verbose=verbose)
