"""What became of an input: recorded with its events, ignored, or about no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import MalformedError
from gatewright.run import events as e
from gatewright.services.gatekeeper.decider.inputs import Continue, Ignored, Recorded, RoleReplied
from tests.attacks.whole_gatekeeper import RUN, contract_on, make_review, open_gatekeeper
from tests.git.repositories import MakeRepository


async def test_an_answer_is_recorded_once_and_ignored_when_it_comes_again(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(contract_on(repository))
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
        answer = RoleReplied("reviewer", make_review(run), "answer:review")
        first = await gatekeeper.orchestrator.advance(RUN, answer)
        again = await gatekeeper.orchestrator.advance(RUN, answer)
    assert isinstance(first, Recorded)
    assert [type(event) for event in first.events][:2] == [e.ReviewReceived, e.GateJudged]
    assert first.run.state == "S4"
    assert isinstance(again, Ignored)
    assert again.run is not None


async def test_an_input_about_no_run_is_malformed(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        with pytest.raises(MalformedError) as raised:
            await gatekeeper.orchestrator.advance("run-00000000000000000000", Continue("next"))
    assert raised.value.reason == "run_unknown"
