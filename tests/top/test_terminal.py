"""The program in a terminal of 80 by 24: its lists, its keys, what becomes of it while the system is away."""

from __future__ import annotations

import pytest
from textual.widgets import Input, Tabs

from gatewright.app.top.lists_screen import ListsScreen
from gatewright.app.top.questions import AbortScreen, WordsScreen
from gatewright.app.top.run_screen import RunScreen
from gatewright.app.top.steering import Steering
from tests.top.conftest import STANDARD, TerminalBoard, back, cells, lists, opened, painted, until, words
from tests.view.ledgers import make_run, run_id_of


def column(pilot: object, number: int) -> list[str]:
    return [row[number] for row in cells(pilot)]  # type: ignore[arg-type] # a pilot of this program


async def test_runs_that_go_on_stand_above_those_that_have_ended(terminal: TerminalBoard) -> None:
    for number, kind in enumerate(("success", "open", "aborted")):
        await terminal.write(make_run(number, kind))
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 3)
        assert column(pilot, 0) == ["running", "failed", "landed"]
        assert words(pilot, "#summary").startswith("live  1 running  0 person  0 paths  1 landed  0 done  1 failed")
        assert all(len(line) == STANDARD[0] for line in painted(pilot))
        assert any(run_id_of(1)[:12] in line for line in painted(pilot))


async def test_an_empty_ledger_teaches_the_next_command(terminal: TerminalBoard) -> None:
    async with terminal.shown() as pilot:
        await until(pilot, lambda: "gatewright run" in words(pilot, "#empty"))
        for keys, taught in (("n", "gatewright approvals watch"), ("u", "Queues are not known"), ("w", "No task is in")):
            await pilot.press("g", keys)
            await until(pilot, lambda taught=taught: taught in words(pilot, "#empty"))  # type: ignore[misc] # of this turn
        assert cells(pilot) == []


async def test_what_comes_is_shown_and_the_cursor_stays_on_its_line(terminal: TerminalBoard) -> None:
    await terminal.write(make_run(1, "open"))
    await terminal.write(make_run(2, "open"))
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 2)
        await pilot.press("j")
        held = lists(pilot)._selected_line()
        assert held is not None
        await terminal.write(make_run(3))
        await terminal.write(make_run(9, "open"))
        await until(pilot, lambda: len(cells(pilot)) == 4)
        assert lists(pilot)._selected_line() is not None
        assert lists(pilot)._selected_line().key == held.key  # type: ignore[union-attr] # just seen


async def test_after_the_server_was_gone_the_board_equals_the_ledger_again(terminal: TerminalBoard) -> None:
    first, second = make_run(1), make_run(2)
    await terminal.write(first[:3])
    async with terminal.shown() as pilot:
        await until(pilot, lambda: column(pilot, 0) == ["running"])
        await terminal.take_away()
        await until(pilot, lambda: words(pilot, "#summary").startswith("NOT CONNECTED"))
        assert column(pilot, 0) == ["running"]
        await terminal.write(first[3:])
        await terminal.write(second)
        terminal.there = True
        await until(pilot, lambda: words(pilot, "#summary").startswith("live"))
        await until(pilot, lambda: column(pilot, 0) == ["landed", "landed"])


@pytest.mark.long
async def test_one_run_is_shown_with_timeline_and_change_and_goes_on(terminal: TerminalBoard) -> None:
    whole = make_run(1)
    await terminal.write(whole[:3])
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: opened(pilot, RunScreen) and "running" in words(pilot, "#detail"))
        await terminal.write(whole[3:])
        await until(pilot, lambda: "landed      " in words(pilot, "#detail"))
        await pilot.press("tab")
        await until(pilot, lambda: "run_finished" in words(pilot, "#detail"))
        await pilot.press("tab")
        await until(pilot, lambda: f"gatewright show {run_id_of(1)}" in words(pilot, "#detail"))
        await pilot.press("tab")
        await until(pilot, lambda: "No agent of this run" in words(pilot, "#detail"))
        await back(pilot)
        assert lists(pilot).listed == "runs"


@pytest.mark.long
async def test_the_filter_narrows_the_runs_and_an_empty_one_shows_all(terminal: TerminalBoard) -> None:
    await terminal.write(make_run(1))
    await terminal.write(make_run(2))
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 2)
        await pilot.press("slash", *run_id_of(2), "enter")
        await until(pilot, lambda: len(cells(pilot)) == 1)
        pilot.app.screen.query_one(Input).value = "nowhere"
        await pilot.press("slash", "enter")
        await until(pilot, lambda: "No run fits" in words(pilot, "#empty"))
        pilot.app.screen.query_one(Input).value = ""
        await pilot.press("slash", "enter")
        await until(pilot, lambda: len(cells(pilot)) == 2)
        assert sorted(line.run_id for line in lists(pilot).lines) == [run_id_of(1), run_id_of(2)]


async def test_keys_change_lists_and_the_help_names_them(terminal: TerminalBoard) -> None:
    async with terminal.shown() as pilot:
        await pilot.press("n")
        assert pilot.app.screen.query_one(Tabs).active == "runs"
        await pilot.press("g", "n")
        await until(pilot, lambda: lists(pilot).listed == "needs")
        await pilot.press("tab")
        await until(pilot, lambda: lists(pilot).listed == "merge")
        await pilot.press("g", "u")
        await until(pilot, lambda: lists(pilot).listed == "queues")
        await pilot.press("question_mark")
        await until(pilot, lambda: opened(pilot, WordsScreen))
        assert "next, previous line" in words(pilot, "#words")
        await back(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_a_run_is_ended_after_a_yes_alone(terminal: TerminalBoard) -> None:
    terminal.steering = Steering(may_abort=True)
    await terminal.write(make_run(1, "open"))
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        for answer, asked in (("n", 0), ("enter", 0), ("y", 1)):
            await pilot.press("x")
            await until(pilot, lambda: opened(pilot, AbortScreen))
            await pilot.press(answer)
            await until(pilot, lambda: opened(pilot, ListsScreen))
            await until(pilot, lambda asked=asked: terminal.aborts() == [run_id_of(1)] * asked)  # type: ignore[misc] # of this turn
    assert terminal.aborts() == [run_id_of(1)]


async def test_who_only_looks_ends_and_approves_nothing(terminal: TerminalBoard) -> None:
    await terminal.write(make_run(1, "open"))
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        for key in ("x", "a"):
            await pilot.press(key)
            await until(pilot, lambda: opened(pilot, WordsScreen))
            assert "--read-only" in words(pilot, "#words")
            await back(pilot)
    assert terminal.aborts() == []
