"""The lists of runs, of what needs a person, of both kinds of queues and of what is at work, and the keys that move in them."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs

from gatewright.app.top.lines import COLUMNS, LISTS, NOTHING_FITS, TITLES, ListedLine, ListName, line, summary
from gatewright.app.top.once import empty_words, every_list
from gatewright.app.top.run_screen import RunScreen
from gatewright.app.top.sources import TopSources
from gatewright.view.filters import BoardFilter, filter_of

#: Minimum seconds between two drawings, and seconds after which ages are drawn again.
SHORTEST_PAUSE: Final = 0.25
TICK: Final = 1.0
#: Cells that a column uses besides its text, and cells at the sides.
_PADDING, _MARGIN = 2, 2
_NARROWEST: Final = 12


class ListsScreen(Screen[None]):
    """The first screen."""

    CSS = """
    ListsScreen #summary { height: 1; background: $panel; }
    ListsScreen Tabs { height: 2; }
    ListsScreen #filter { display: none; }
    ListsScreen #filter.open { display: block; }
    ListsScreen DataTable { height: 1fr; }
    ListsScreen #empty { height: auto; padding: 1 2; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.quit", "leave"),
        Binding("question_mark", "app.help", "keys"),
        Binding("slash", "filter", "only"),
        Binding("tab", "next_list", "next list", priority=True),
        Binding("enter", "open", "one run"),
        Binding("a", "approve", "approve"),
        Binding("x", "abort", "end run"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
        Binding("g", "go", show=False),
        Binding("b", "gone('runs')", show=False),
        Binding("n", "gone('needs')", show=False),
        Binding("m", "gone('merge')", show=False),
        Binding("u", "gone('queues')", show=False),
        Binding("w", "gone('work')", show=False),
        Binding("escape", "leave_filter", show=False),
    ]

    def __init__(self, sources: TopSources) -> None:
        super().__init__()
        self._sources = sources
        self.chosen = BoardFilter()
        self.listed: ListName = "runs"
        self.lines: list[ListedLine] = []
        self._goes = False

    def compose(self) -> ComposeResult:
        yield Static(Text("reading the ledger …"), id="summary")
        yield Tabs(*(Tab(TITLES[name], id=name) for name in LISTS))
        yield Input(placeholder="only runs that hold this text; empty: all", id="filter", compact=True)
        yield DataTable(id="list", cursor_type="row", zebra_stripes=True)
        yield Static(Text(""), id="empty")
        yield Footer()

    def on_mount(self) -> None:
        self._table.focus()
        self.run_worker(self._follow_lists(), exclusive=True)
        self.set_interval(TICK, self.redraw)

    def on_resize(self, _event: Resize) -> None:
        self._begin_list()

    def redraw(self) -> None:
        """Show what is known now, the cursor on the same line as before."""
        if not self.query("#summary"):
            return  # it is being left
        board, needs = self._sources.board, self._sources.needs()
        if board is None:
            words = "reading the ledger …"
            self._show_words(f"{words}\n\n{line(self._sources.trouble)}")
        else:
            words = summary(board, self.chosen, len(needs))
            drawn = every_list(board, needs, self._sources.surroundings, self.chosen, self._sources.clock.now())
            self._fill(drawn[self.listed])
        state = "live" if self._sources.live else "NOT CONNECTED, old"
        self.query_one("#summary", Static).update(Text(f"{state}  {words}", no_wrap=True, overflow="ellipsis"))

    def action_down(self) -> None:
        self._table.action_cursor_down()

    def action_up(self) -> None:
        self._table.action_cursor_up()

    def action_go(self) -> None:
        self._goes = True

    def action_gone(self, name: ListName) -> None:
        if self._goes:
            self._goes = False
            self.query_one(Tabs).active = name
            self._table.focus()

    def action_next_list(self) -> None:
        self.query_one(Tabs).action_next_tab()
        self._table.focus()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_leave_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self._table.focus()

    def action_open(self) -> None:
        chosen = self._selected_line()
        if chosen is not None and chosen.run_id:
            self.app.push_screen(RunScreen(self._sources, chosen.run_id))

    def action_approve(self) -> None:
        chosen = self._selected_line()
        self.app.ask_approve(chosen.request_id if chosen is not None else "")  # type: ignore[attr-defined] # TopApp

    def action_abort(self) -> None:
        chosen = self._selected_line()
        if chosen is not None and chosen.run_id:
            self.app.ask_abort(chosen.run_id)  # type: ignore[attr-defined] # TopApp

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        found: list[ListName] = [each for each in LISTS if each == event.tab.id]
        self.listed = found[0] if found else "runs"
        self._begin_list()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.chosen = filter_of({"text": event.value})
        self.action_leave_filter()
        self.redraw()

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        self.action_open()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    async def _follow_lists(self) -> None:
        revision = -1
        while True:
            revision = await self._sources.changed(revision)
            self.redraw()
            await asyncio.sleep(SHORTEST_PAUSE)

    def _selected_line(self) -> ListedLine | None:
        row = self._table.cursor_row
        return self.lines[row] if 0 <= row < len(self.lines) else None

    def _begin_list(self) -> None:
        """The columns of the list that is shown, as wide as the terminal lets them be."""
        table, columns = self._table, COLUMNS[self.listed]
        fixed = sum(width for _, width in columns) + _PADDING * len(columns) + _MARGIN
        rest = max(_NARROWEST, self.size.width - fixed)
        table.clear(columns=True)
        for title, width in columns:
            table.add_column(Text(title), width=width or rest)
        self.lines = []
        self.redraw()

    def _fill(self, lines: list[ListedLine]) -> None:
        table = self._table
        if not table.columns:
            return
        if [each.key for each in lines] == [each.key for each in self.lines]:
            self._update_cells(lines)
        else:
            self._replace(lines)
        self.lines = lines
        if lines:
            self._show_words("")
        else:
            narrowed = self.listed == "runs" and self.chosen.given()
            self._show_words(NOTHING_FITS if narrowed else empty_words(self.listed, self._sources.surroundings))

    def _show_words(self, words: str) -> None:
        """Show text in place of the list; empty text shows the list."""
        empty = self.query_one("#empty", Static)
        self._table.display, empty.display = not words, bool(words)
        empty.update(Text(words))

    def _update_cells(self, lines: list[ListedLine]) -> None:
        """The same lines in the same places: only the cells that differ are drawn."""
        for row, (now, before) in enumerate(zip(lines, self.lines, strict=True)):
            for column, (text, known) in enumerate(zip(now.cells, before.cells, strict=True)):
                if text != known:
                    self._table.update_cell_at((row, column), _cell(text))  # type: ignore[arg-type] # a Coordinate is a pair

    def _replace(self, lines: list[ListedLine]) -> None:
        table, held = self._table, self._selected_line()
        above = table.cursor_row - int(table.scroll_y)
        table.clear()
        for each in lines:
            table.add_row(*(_cell(text) for text in each.cells))
        place = next((row for row, each in enumerate(lines) if held is not None and each.key == held.key), 0)
        table.move_cursor(row=place, scroll=False)
        table.scroll_to(y=max(0, place - above), animate=False)


def _cell(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
