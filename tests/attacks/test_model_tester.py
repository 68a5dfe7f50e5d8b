"""A model tester beside a run: its missed cases are remarks, its suggestions run nowhere, and nothing depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import Error, SummonsAnswer
from gatewright.contracts.people.summons import MissedCase, SuggestedTest
from gatewright.rules.critic import critic_id
from gatewright.rules.model_tester import tester_id
from gatewright.rules.summons import GRACE
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached
from gatewright.work_documents.remarks import remark_line, run_remarks
from tests.attacks.test_critic import DOUBTS, answered, assert_verified, critique, repository
from tests.attacks.test_routing import ROUTING, Routed, Rules, open_routed
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import Repository

__all__ = ["repository"]

RULES: Rules = ROUTING | {"model_tester": {"from_tier": "medium", "timeout_sec": 60}}
CASE = MissedCase(
    case="An empty README.", path="README.md", line=1, command="python -m pytest", test=SuggestedTest(path="t.py", content="x")
)


def missed(run: Run, *cases: MissedCase) -> SummonsAnswer:
    return replace(critique(run, "proceed"), task_id=tester_id(run), critique=None, missed=cases)


async def made(routed: Routed, *, proved: bool = True) -> Run:
    """A change of medium risk, which is tested."""
    return await routed.made({"src/a.py": b"a = 2\n"}, proved=proved)


async def test_missed_cases_are_remarks_and_the_run_lands(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), routing=RULES) as routed:
        run = await made(routed)
        assert (run.state, [*run.summonses]) == ("S4", [tester_id(run)])
        (asked,) = run.summonses.values()
        assert "Acceptance commands:" in asked.task.brief
        assert routed.gatekeeper.nothing_landed()
        run = await answered(routed, missed(run, CASE))
        lines = [remark_line(each) for each in run_remarks((), run) if each.source == "model tester"]
        assert run.status == "SUCCESS"
        (line,) = lines
        assert line.startswith("model tester: README.md:1: missed_case: An empty README.; suggested test: t.py; suggested")
        assert run.tests is not None
        assert [command.name for command in run.tests.commands] == ["unit"], "no suggestion ran"
        assert_verified(tmp_path)


async def test_a_change_of_less_risk_asks_no_tester(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), routing=RULES) as routed:
        run = await routed.made({"README.md": b"other\n"})
        assert (run.status, run.summonses) == ("SUCCESS", {})
        assert run.routing is not None
        assert [(lane.status, lane.satisfies) for lane in run.routing.lanes if lane.lane == "qa"] == [("skipped", None)]


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_tester_without_an_answer_stops_nothing(repository: Repository, tmp_path: Path, is_silent: bool) -> None:
    async with open_routed(repository, tmp_path, HandClock(), routing=RULES) as routed:
        run = await made(routed)
        if is_silent:
            assert isinstance(routed.clock, HandClock)
            routed.clock.seconds += 60 + GRACE
            await routed.gatekeeper.orchestrator.advance(run.run_id, DeadlineReached("late"))
        else:
            await answered(routed, Error(code="structured_output_invalid", message="no words", task_id=tester_id(run)))
        run = await routed.run()
        assert run.status == "SUCCESS"
        assert [each.rule for each in run_remarks((), run) if each.source == "model tester"] == [
            "task_timeout" if is_silent else "structured_output_invalid"
        ]
        assert_verified(tmp_path)


async def test_the_critic_is_asked_after_the_tester_with_its_cases(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), DOUBTS, routing=RULES) as routed:
        run = await made(routed, proved=False)
        assert [*run.summonses] == [tester_id(run)]
        run = await answered(routed, missed(run, CASE))
        assert [*run.summonses] == [tester_id(run), critic_id(run)]
        assert "An empty README." in run.summonses[critic_id(run)].task.brief
        run = await answered(routed, critique(run, "proceed"))
        assert run.status == "SUCCESS"
        assert_verified(tmp_path)


async def test_a_tester_recommends_nothing(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), routing=RULES) as routed:
        run = await made(routed)
        run = await answered(routed, replace(missed(run, CASE), critique=critique(run, "block").critique))
        known = run.summonses[tester_id(run)].answer
        assert known is not None
        assert (run.status, known.critique, known.missed) == ("SUCCESS", None, (CASE,))
