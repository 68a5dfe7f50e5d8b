"""The live timeline on a terminal: past events scroll by above; below stand the way of the run and the tasks at work."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from gatewright.app.cli.runs.result import REMARK_MARGIN, RunResult, closing_words
from gatewright.app.cli.runs.waits import Wait, wait_lines
from gatewright.contracts import AgentActivity, OrchestratorEvent
from gatewright.contracts.activity import MOMENTARY
from gatewright.run.states import MAIN_LINE, stage_name
from gatewright.view.rows import seconds_since, tasks_in_hand
from gatewright.view.run_view import RunView, moment
from gatewright.view.safe_text import printable
from gatewright.view.sentences import SIGNS, Mark, TimelineLine, activity_lines, lines

_STYLES: dict[Mark, str] = {"good": "green", "bad": "bold red", "given": "cyan", "plain": "dim", "warn": "yellow"}
_ENDINGS = {"SUCCESS": "bold green", "FAILED": "bold red", "ABORTED": "bold yellow"}
_CLOSING = {"  reason ": "red", "  output ": "bold", "  retry with:": "cyan", "  advice ": "cyan", REMARK_MARGIN: "yellow"}
#: A line of a test's output that says what failed, as the usual runners write it.
_WRONG = re.compile(r"^  │ (?:E  |FAILED|ERROR|\S*(?:Error|Exception)\b|.*\b[1-9][0-9]* failed\b|--- FAIL|not ok\b|error\b)")  # noqa: TID251 - linear: anchored, and the border of a number ends each try
_FRAMES_PER_SECOND = 8


class LiveDisplay:
    """Draws with rich. Text from outside is never read as markup."""

    def __init__(self, console: Console | None = None, command: Sequence[str] = ()) -> None:
        self._command = tuple(command)
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots", style="cyan")
        self._view: RunView | None = None
        self._note = ""
        self._stage = ""
        self._waits: tuple[Wait, ...] = ()
        #: By task, what its agent says and has used just now.
        self._now: dict[str, dict[str, str]] = {}
        self._live = Live(
            console=self._console, get_renderable=self._below, refresh_per_second=_FRAMES_PER_SECOND, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # A terminal that has gone away needs no tidying.
        with contextlib.suppress(OSError):
            self._live.stop()

    def note(self, text: str) -> None:
        self._note = printable(text)

    def show(self, record: OrchestratorEvent, view: RunView) -> None:
        if self._view is None:
            # What had to be waited for is there.
            self._note = ""
        self._view = view
        for line in lines(record, view):
            self._console.print(_draw_line(line, new_stage=line.stage != self._stage))
            self._stage = line.stage

    def waits(self, view: RunView, waits: Sequence[Wait]) -> None:
        self._view, self._waits = view, tuple(waits)

    def activity(self, view: RunView, said: AgentActivity) -> None:
        now = self._now.setdefault(said.task_id, {})
        if said.event in MOMENTARY:
            now[said.event] = said.text
            return
        now.pop("text", None)
        for line in activity_lines(view, said):
            self._console.print(_draw_line(line, new_stage=False))

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
        head, *rest = closing_words(view, self._command)
        self._console.print()
        self._console.print(Text(head, _ENDINGS.get(view.run.status, "bold")))
        for words in rest:
            self._console.print(_closing(words), soft_wrap=True)

    def give_up(self, result: RunResult) -> None:
        """Nothing: the error itself is reported."""

    def _below(self) -> Group:
        view = self._view
        if view is None:
            self._spinner.text = Text(self._note or "starting the stack", "dim")
            return Group(self._spinner)
        now = datetime.now(UTC)
        elapsed = (now - moment(view.run.created_at)).total_seconds()
        rows = [_way(view, elapsed)]
        for task in tasks_in_hand(view.run, view.dispatched):
            since = seconds_since(task.since, now)
            rows.append(Text(f"      {task.role:<11} {printable(view.short(task.task_id))}  {since:.1f} s", "cyan"))
            rows += _just_now(self._now.get(task.task_id, {}))
        rows += [Text(f"      {words}", "yellow") for words in wait_lines(self._waits)]
        self._spinner.text = Text(self._note or ("waiting" if self._waits else "at work"), "dim")
        return Group(Text(), *rows, self._spinner)


def _just_now(said: Mapping[str, str]) -> Iterator[Text]:
    """What an agent has used, and the last line that it says, each on one line of the terminal."""
    last = next(reversed(said.get("text", "").splitlines()), "")
    for words, style in ((said.get("usage", ""), "dim"), (last, "")):
        if words:
            yield Text(f"        {printable(words)}", style, overflow="ellipsis", no_wrap=True)


def _way(view: RunView, elapsed: float) -> Text:
    """``✔ S0 intake ─ ✔ S1 plan ─ ● S2 execute ─ S3 review ─ S4 test ─ S6 done   1.2 s``."""
    state = view.run.state
    here = view.run.parked_from or ("S2" if state == "S5" else state)
    order = list(MAIN_LINE)
    place = order.index(here) if here in order else -1
    way = Text("  ")
    for number, stage in enumerate(order):
        if number:
            way.append(" ─ ", "dim")
        name = stage_name(stage)
        if place < 0 or number > place:
            way.append(name, "dim")
        elif number == place and stage != "S6":
            way.append(f"● {name}", "bold cyan")
        else:
            way.append(f"✔ {name}", "green")
    if view.run.attempt > 1:
        way.append(f"   attempt {view.run.attempt}", "yellow")
    way.append(f"   {elapsed:.1f} s", "dim")
    return way


def _closing(words: str) -> Text:
    """A line of the closing words: output in its own margin, what is wrong in red, what can be done about it in cyan."""
    if words.startswith("  │ "):
        drawn = Text().append("  │ ", "dim")
        return drawn.append(words[4:], "red" if _WRONG.search(words) else "")
    style = next((style for start, style in _CLOSING.items() if words.startswith(start)), "")
    return Text(words, style)


def _draw_line(line: TimelineLine, *, new_stage: bool) -> Text:
    style = _STYLES[line.mark]
    drawn = Text(f"{line.at:7.2f}s  ", "dim")
    drawn.append(f"{line.stage if new_stage else '':<11}", "bold")
    drawn.append(f"{SIGNS[line.mark]} ", style)
    if line.who:
        drawn.append(f"{printable(line.who)}: ", "" if line.mark == "plain" else style)
    drawn.append(line.text, "bold red" if line.mark == "bad" else "")
    return drawn
