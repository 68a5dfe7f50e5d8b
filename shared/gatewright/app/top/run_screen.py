"""One run, updated live: state, timeline, change, live agent output."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static, Tab, Tabs

from gatewright.app.top.detail_lines import PART_TITLES, PARTS, agent_lines, change_lines, event_lines, standing_lines
from gatewright.app.top.lines import line
from gatewright.app.top.sources import TopSources
from gatewright.errors import GatewrightError
from gatewright.view.detail import RunDetail, detail_of
from gatewright.view.rows import with_processes

#: Seconds between two checks for changes of the run.
LOOK: Final = 0.5
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


class RunScreen(Screen[None]):
    """Follows one run of the board."""

    CSS = """
    RunScreen Tabs { height: 2; }
    RunScreen #heading { height: 1; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("tab", "next_part", "next part", priority=True),
        Binding("a", "approve", "approve"),
        Binding("x", "abort", "end run"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
        Binding("question_mark", "app.help", "keys"),
        Binding("q", "app.quit", "leave"),
    ]

    def __init__(self, sources: TopSources, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self._sources = sources
        self._detail: RunDetail | None = None
        self._refused = "reading …"
        self._patches: dict[str, bytes] = {}
        self._shown = ""

    def compose(self) -> ComposeResult:
        yield Static(Text(""), id="heading")
        yield Tabs(*(Tab(PART_TITLES[name], id=name) for name in PARTS))
        with VerticalScroll():
            yield Static(Text(self._refused), id="detail")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.run_worker(self._follow_board(), exclusive=True)

    def on_tabs_tab_activated(self, _event: Tabs.TabActivated) -> None:
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._draw()

    def action_back(self) -> None:
        self.dismiss(None)

    def action_next_part(self) -> None:
        self.query_one(Tabs).action_next_tab()
        self.query_one(VerticalScroll).focus()

    def action_approve(self) -> None:
        need = next((each for each in self._sources.needs() if each.run_id == self.run_id and each.kind == "approval"), None)
        self.app.ask_approve(need.key if need is not None else "")  # type: ignore[attr-defined] # TopApp

    def action_abort(self) -> None:
        self.app.ask_abort(self.run_id)  # type: ignore[attr-defined] # TopApp

    def action_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)

    async def _follow_board(self) -> None:
        seen: tuple[str, int] | None = None
        while True:
            board = self._sources.board
            row = board.rows.get(self.run_id) if board is not None else None
            moved = (board.origin, row.sequence if row is not None else 0) if board is not None else None
            if moved is not None and (moved != seen or self._detail is None) and await self._read_run():
                seen = moved
            self._draw()
            await asyncio.sleep(LOOK)

    async def _read_run(self) -> bool:
        """Read the run if it changed; return whether it did."""
        try:
            found = detail_of(await self._sources.link.client.events(self.run_id), self._sources.clock.now())
            if found is not None:
                await self._fetch_patch(found)
        except GatewrightError as error:
            self._refused = f"{self.run_id} cannot be read now [{error.reason}]: {error.message}"
            return False
        if found is None:
            self._detail = None
            self._refused = f"{self.run_id} is not in the ledger: its evidence is its bundle, gatewright show {self.run_id}"
        else:
            self._detail = found
        return found is not None

    async def _fetch_patch(self, detail: RunDetail) -> None:
        candidate = detail.run.candidate
        if candidate is not None and candidate.patch not in self._patches:
            with contextlib.suppress(GatewrightError):
                self._patches = {candidate.patch: await self._sources.link.client.get_artifact(candidate.patch)}

    def _draw(self) -> None:
        if not self.query("#heading"):
            return  # it is being left
        state = "live" if self._sources.live else "NOT CONNECTED, what is shown is old"
        self.query_one("#heading", Static).update(Text(f"{state}  {self.run_id}", no_wrap=True))
        lines = self._part_lines()
        words = "\n".join(lines)
        if words != self._shown:
            self._shown = words
            self.query_one("#detail", Static).update(_colour_lines(lines) if self._part == "change" else Text(words))

    @property
    def _part(self) -> str:
        return self.query_one(Tabs).active or PARTS[0]

    def _part_lines(self) -> list[str]:
        detail = self._detail
        if detail is None:
            return [line(self._refused)]
        match self._part:
            case "timeline":
                return event_lines(detail)
            case "change":
                candidate = detail.run.candidate
                return change_lines(self._patches.get(candidate.patch) if candidate is not None else None, self.run_id)
            case "agents":
                return agent_lines(self._sources.agent_activities(self.run_id), self.run_id)
            case _:
                board = self._sources.board
                row = board.rows.get(self.run_id) if board is not None else None
                claimed = {task.task_id: task.process for task in row.in_hand} if row is not None else {}
                detail = replace(detail, row=with_processes(detail.row, claimed))
                return standing_lines(detail, self._sources.needs(), self._sources.clock.now())


def _colour_lines(lines: list[str]) -> Text:
    drawn = Text()
    for each in lines:
        drawn.append(f"{each}\n", _COLOURS.get(each[:1], ""))
    return drawn
