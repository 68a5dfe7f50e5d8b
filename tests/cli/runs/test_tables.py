"""Lists of runs and branches in 60, 80 and 100 columns, and in a pipe."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from msgspec import structs
from rich.console import Console

from gatewright.app.cli.branches import MirrorRefs, ref_lines
from gatewright.app.cli.run import display as displays
from gatewright.app.cli.run.display import LiveDisplay, PlainDisplay
from gatewright.app.cli.runs.listing import RunEntry, run_entry, run_table, short_ids
from gatewright.git.host.run_refs import RunRef
from gatewright.view.run_view import RunView, advance
from tests.cli.runs.test_showing_runs import events_of, view_after
from tests.gatekeeper.simulated_run import Script

IDS = ("run-0ca515e3d0c8fdf721a3", "run-0ca515e3ffffffffffff", "run-615e3e306d1c0b20ef7d")


def entries() -> list[RunEntry]:
    entry = run_entry(view_after(Script(refused_shard=1)))
    return [structs.replace(entry, run_id=run_id, request="round the total of each line to cents " * 3) for run_id in IDS]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_list_of_runs_fits_the_terminal(width: int) -> None:
    lines = run_table(entries(), width)
    assert max(map(len, lines)) <= width
    assert all(line.endswith("…") for line in lines[1:])
    words = {line.split()[-1].rstrip("…") for line in lines[1:]}
    assert words <= {*["round", "the", "total", "of", "each", "line", "to", "cents"]}
    assert (IDS[0] in lines[1]) is (width >= 100)


def test_a_pipe_gets_whole_ids_states_and_times() -> None:
    lines = run_table(entries())
    assert lines[0].split() == ["RUN", "STATUS", "STATE", "STARTED", "TOOK", "REQUEST"]
    assert [line.split()[0] for line in lines[1:]] == list(IDS)


def test_short_ids_stay_distinct() -> None:
    assert short_ids(IDS) == [run_id[:13] for run_id in IDS]
    assert short_ids(IDS[1:]) == [run_id[:12] for run_id in IDS[1:]]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_list_of_branches_fits_the_terminal(width: int) -> None:
    branches = [
        RunRef(name=run_id, commit="4" * 40, date="2026-01-01T00:00:00Z", subject="round the total " * 9, state="unmerged")
        for run_id in IDS
    ]
    lines = ref_lines(branches, [MirrorRefs("worker/mirrors/" + "0" * 40 + ".git", 3)], width)
    assert max(map(len, lines)) <= width
    assert (f"gatewright/{IDS[0]}" in lines[1]) is (width >= 80)
    assert ("4" * 12 in lines[1]) is (width >= 100)


@pytest.mark.parametrize("width", [60, 80])
def test_what_a_terminal_shows_of_a_run_fits(width: int) -> None:
    screen = io.StringIO()
    view: RunView | None = None
    with LiveDisplay(Console(file=screen, force_terminal=False, width=width, highlight=False, markup=False)) as display:
        for event in events_of(Script(retries=1, tests_fail_until=1)):
            view = advance(view, event)
            display.show(event, view)
        assert view is not None
        display.close(replace(view, changes=()))
    prose = [line for line in screen.getvalue().splitlines() if not line.startswith(("Next", "To allow"))]
    assert max(map(len, prose)) <= width


@pytest.mark.parametrize(("term", "kind"), [("dumb", PlainDisplay), ("xterm", LiveDisplay)])
def test_a_terminal_without_a_cursor_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, term: str, kind: type[PlainDisplay | LiveDisplay]
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert isinstance(displays.make_display(json_output=False), kind)
