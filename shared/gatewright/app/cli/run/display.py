"""Live display of a run: as JSON lines, as plain lines, or on a terminal.

On a terminal, finished stages scroll by above one or two live lines about the current work.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from gatewright.app.cli.output import emit, terminal_width, write_line
from gatewright.app.cli.runs.result import RunResult, closing_words, result_of
from gatewright.app.cli.runs.waits import Wait, WaitNotice, wait_lines
from gatewright.contracts import AgentActivity, OrchestratorEvent
from gatewright.contracts.activity import MOMENTARY
from gatewright.view.run_view import Mark, RunView, StageLine
from gatewright.view.safe_text import fit, printable
from gatewright.view.sentences import activity_lines, event_text, lines
from gatewright.view.stages import MARGIN, PAGE_WIDTH, stage_lines, stage_text, title_lines, work_lines


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

        display = LiveDisplay(command=command, verbose=verbose)
        if display.can_draw:
            return display
    return PlainDisplay(command, verbose=verbose)


_STYLES: dict[Mark, str] = {
    "good": "green",
    "bad": "bold red",
    "given": "cyan",
    "plain": "dim",
    "warn": "yellow",
    "more": "",
}
#: Styles by the beginning of a closing line.
_CLOSING = {
    "Landed in": "bold green",
    "Passed in": "bold green",
    **dict.fromkeys(("Planned in", "Reviewed in", "Tested in"), "bold green"),
    **dict.fromkeys(("Failed after", "Aborted after"), "bold red"),
    "Nothing landed": "bold red",
    "Not finished": "bold yellow",
    "To allow it": "cyan",
    "Retry with": "cyan",
    "Advice": "cyan",
    "Next": "cyan",
    "Evidence": "dim",
    "  output ": "bold",
}
#: A line of a test's output with the failure, in the format of the usual runners.
_WRONG = re.compile(r"^  │ (?:E  |FAILED|ERROR|\S*(?:Error|Exception)\b|.*\b[1-9][0-9]* failed\b|--- FAIL|not ok\b|error\b)")  # noqa: TID251 - linear: anchored, and the border of a number ends each try
_FRAMES_PER_SECOND = 8
#: Maximum live lines below the spinner.
_MOST_LIVE = 2


class LiveDisplay:
    """Draws with rich. Text from outside is never parsed as markup."""

    def __init__(self, console: Console | None = None, command: Sequence[str] = (), *, verbose: bool = False) -> None:
        self._command = tuple(command)
        self._verbose = verbose
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots", style="cyan")
        self._view: RunView | None = None
        self._note = ""
        self._waits: tuple[Wait, ...] = ()
        #: Current reports of the agents at work, by kind.
        self._now: dict[str, str] = {}
        self._live = Live(
            console=self._console, get_renderable=self._below, refresh_per_second=_FRAMES_PER_SECOND, transient=True
        )

    @property
    def can_draw(self) -> bool:
        """Return whether the terminal can move its cursor."""
        return not self._console.is_dumb_terminal

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # A terminal that has gone away needs no cleanup.
        with contextlib.suppress(OSError):
            self._live.stop()

    def note(self, text: str) -> None:
        self._note = printable(text)

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        if self._view is None:
            self._note = ""  # The note was about the start, which is over.
            if not self._verbose:
                self._console.print(Text("\n".join([*title_lines(view.run, self._console.width), ""]), "bold"))
        self._view = view
        for stage in stage_lines(record, view) if not self._verbose else ():
            self._console.print(self._stage_line(stage))
        for line in lines(record, view) if self._verbose else ():
            self._console.print(Text(event_text(line), _STYLES[line.mark]))

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        self._view, self._waits = view, tuple(waits)

    def activity(self, view: RunView, activity: AgentActivity) -> None:
        if activity.event != "usage":
            self._now.pop("text", None)
        self._now["usage" if activity.event == "usage" else "text"] = activity.text
        for line in activity_lines(view, activity) if activity.event not in MOMENTARY else ():
            if self._verbose:
                self._console.print(Text(event_text(line), _STYLES[line.mark]))
            elif line.mark == "warn":
                self._console.print(self._stage_line(StageLine(line.mark, line.who, line.text)))

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def close(self, view: RunView) -> None:
        self._view, self._note = view, ""
        self._live.stop()
        self._console.print()
        for words in closing_words(view, self._command, width=self._console.width):
            self._console.print(_closing(words), soft_wrap=True)

    def give_up(self, result: RunResult) -> None:
        """Display the result without a run. The error itself is reported elsewhere."""

    def _below(self) -> Group:
        view, width = self._view, self._console.width
        if view is None:
            self._spinner.text = Text(fit(self._note or "starting the stack", width - 2), "dim")
            return Group(self._spinner)
        first, *others = work_lines(view, datetime.now(UTC)) or ["gatekeeper · judging"]
        role, _, rest = first.partition(" · ")
        last = next(reversed(self._now.get("text", "").splitlines()), "").strip() if role == "worker" else ""
        work, _, seconds = rest.rpartition(" · ")
        used = self._now.get("usage", "") if role == "worker" else ""
        now = [role, last or work, used or seconds] if last or used else [first]
        # An agent's text is cut in favour of the rest of the line.
        room = width - 2 - sum(len(part) + 3 for part in (now[0], *now[2:])) if len(now) > 1 else 0
        words = " · ".join([now[0], fit(printable(now[1]), max(8, room)), *now[2:]]) if len(now) > 1 else first
        self._spinner.text = Text(fit(printable(self._note or words), width - 2), "dim" if self._note else "")
        below = [*wait_lines(self._waits), *others][:_MOST_LIVE]
        return Group(Text(), self._spinner, *(Text(fit(f"  {words}", width), "yellow") for words in below))

    def _stage_line(self, line: StageLine) -> Text:
        drawn = Text(stage_text(line, self._console.width))
        drawn.stylize(_STYLES[line.mark], 0, 1 if line.mark == "good" else MARGIN if line.mark == "bad" else None)
        return drawn


def _closing(words: str) -> Text:
    """Format a closing line: output in its own margin, errors red, advice cyan."""
    if words.startswith("  │ "):
        drawn = Text().append("  │ ", "dim")
        return drawn.append(words[4:], "red" if _WRONG.search(words) else "")
    style = next((style for start, style in _CLOSING.items() if words.startswith(start)), "")
    return Text(words, style)
