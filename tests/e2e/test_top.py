"""The board in a terminal on a real stack: a run that asks is approved from it, with the key of a person, and lands."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.session import ledger_readers
from gatewright.app.cli.top import steering_of
from gatewright.app.top.questions import ApproveScreen, WordsScreen
from gatewright.app.top.sources import TopSources
from gatewright.app.top.terminal import TopApp
from gatewright.clock import SystemClock
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack, slow_request
from tests.e2e.test_approvals import PHRASE, AskingStack, make_key, make_policies
from tests.top.conftest import back, cells, lists, opened, until, words

pytestmark = pytest.mark.long


async def test_a_run_is_approved_from_the_board_and_lands(tmp_path: Path, make_project: MakeProject) -> None:
    key, project = make_key(tmp_path), make_project()
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies", key))
    with running_stack(stack.home, workers=1, stack=stack):
        with stack.client() as client:
            run_id = client.submit_request(slow_request(project, 0.0), patience=SECONDS)
        place = CommandContext(tmp_path, stack.home, None, key)
        app = TopApp(TopSources(ledger_readers(place), SystemClock()), steering_of(place, key, "ana", read_only=False))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.sources.board is not None)
            await pilot.press("g", "n")
            await until(pilot, lambda: [row[0] for row in cells(pilot)] == ["approval"])
            for phrase, told in (("land it!", "approval_phrase_differs"), (PHRASE, "approve by ana")):
                await pilot.press("a")
                await until(pilot, lambda: opened(pilot, ApproveScreen) and app.focused is not None)
                await pilot.press(*({" ": "space", "!": "exclamation_mark"}.get(char, char) for char in phrase), "enter")
                await until(pilot, lambda: opened(pilot, WordsScreen))
                assert told in words(pilot, "#words")
                await back(pilot)
            await pilot.press("g", "b")
            await until(pilot, lambda: lists(pilot).listed == "runs" and [row[0] for row in cells(pilot)] == ["landed"])
            assert [line.run_id for line in lists(pilot).lines] == [run_id]
            await pilot.press("g", "w")
            await until(pilot, lambda: ["gatekeeper", "", "1 process", "", "", ""] in cells(pilot))
            assert app.sources.surroundings.missing == ()
