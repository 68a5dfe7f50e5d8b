"""One entry against stand-ins of all forges: what is shown, what fails, and what is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

import pytest

from gatewright.app.forge.inward import Ordered
from gatewright.app.forge.metrics import ForgeMetrics
from gatewright.app.forge.port import ChangeRequest, ForgeUnavailableError
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import DeniedError, UnavailableError
from tests.evidence.recorded_runs import COMMIT, START
from tests.forge.outward.keepers import SCENARIOS, facts, keeper_of, of_kind
from tests.forge.outward.runs import ENTRY, HEAD, ForgeRun, board_of, entry_with
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import Standin

WRITES = frozenset({"POST", "PUT", "PATCH"})


def ordered(number: int) -> Ordered:
    return Ordered(number, HEAD, "run-1")


@dataclass
class RecordedJudge:
    """Records which requests are to be judged; refuses those in ``refused``."""

    seen: list[tuple[int, str]] = field(default_factory=list)
    refused: frozenset[int] = frozenset()

    async def judge(self, number: int) -> Ordered:
        self.seen.append((number, "hint"))
        return ordered(number)

    async def judge_request(self, request: ChangeRequest) -> Ordered:
        if request.number in self.refused:
            raise DeniedError("no", code="denied")
        self.seen.append((request.number, request.head))
        return ordered(request.number)


@pytest.fixture(params=get_args(ForgeKind))
def forge(request: pytest.FixtureRequest) -> Iterator[Standin]:
    with Standin(request.param) as started:
        yield started


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_ends_the_same_on_every_forge(forge: Standin, name: str) -> None:
    scenario = SCENARIOS[name]
    scenario.prepare(forge.state)
    entry = of_kind(scenario.entry, forge.kind)
    for phase in scenario.phases:
        runs = phase(forge.state)
        async with keeper_of(entry, forge.kind, forge.api, forge.token, runs) as keeper:
            report = await keeper.round(board_of(*runs))
            assert report.faults == []
    (request,) = forge.state.requests.values()
    (note,) = forge.state.notes_of(request.number)
    assert note.author == forge.state.login
    states = {"merged by the forge": "merged", "landed by the gatekeeper": "closed"}
    assert request.state == states.get(name, "open")
    last = {status.commit: status.state for status in forge.state.statuses}
    green = {"success"} if name != "failed" else {"failure", "failed"}
    assert set(last.values()) <= green
    before = facts(forge.state)
    calls = len(forge.app.calls)
    async with keeper_of(entry, forge.kind, forge.api, forge.token, runs) as keeper:
        await keeper.round(board_of(*runs))
    assert facts(forge.state) == before
    assert not [call for call in forge.app.calls[calls:] if call.method in WRITES]


async def test_a_forge_that_is_away_is_shown_everything_later() -> None:
    with Standin("github") as forge:
        SCENARIOS["own branch"].prepare(forge.state)
        run, metrics = ForgeRun(key="own").succeed(), ForgeMetrics(["shop"])
        forge.fail(Fault(status=503, headers={"Retry-After": "7"}, body=b"{}"))
        async with keeper_of(ENTRY, "github", forge.api, forge.token, [run], metrics=metrics) as keeper:
            with pytest.raises(ForgeUnavailableError) as away:
                await keeper.round(board_of(run))
            assert away.value.retry_after == 7
            assert b'gatewright_forge_behind_seconds{forge="shop"} 0.0' not in metrics.exposition()
            forge.recover()
            await keeper.round(board_of(run))
        assert {status.state for status in forge.state.statuses} == {"success"}
        assert b'gatewright_forge_behind_seconds{forge="shop"} 0.0' in metrics.exposition()
        assert b'outcome="unavailable"' in metrics.exposition()


async def test_a_refused_call_does_not_prevent_the_check() -> None:
    with Standin("github") as forge:
        SCENARIOS["own branch"].prepare(forge.state)
        run = ForgeRun(key="own").succeed()
        forge.fail(Fault(status=403, body=b'{"message": "no"}', method="POST", path="/pulls"))
        async with keeper_of(ENTRY, "github", forge.api, forge.token, [run]) as keeper:
            report = await keeper.round(board_of(run))
        assert len(report.faults) == 1
        assert "forge_denied" in report.faults[0]
        assert [(status.commit, status.state) for status in forge.state.statuses] == [(COMMIT, "success")]


async def test_a_refused_run_does_not_delay_others() -> None:
    with Standin("github") as forge:
        SCENARIOS["judged"].prepare(forge.state)
        unknown = ForgeRun(key="unknown", number=9, head="9" * 40, start=START + timedelta(hours=1)).begin()
        known = ForgeRun(key="known", number=1).begin()
        async with keeper_of(ENTRY, "github", forge.api, forge.token, [unknown, known]) as keeper:
            report = await keeper.round(board_of(unknown, known))
        assert report.faults
        assert [(status.commit, status.state) for status in forge.state.statuses] == [(HEAD, "pending")]


async def test_an_alarm_is_counted_once() -> None:
    metrics = ForgeMetrics(["shop"])
    with Standin("github") as forge:
        SCENARIOS["judged"].prepare(forge.state)
        run = ForgeRun(key="judged", number=1).succeed(mode="none", ref="")
        forge.state.move_head(1, "9" * 40)
        forge.state.merge(1, None)
        for _ in range(3):
            async with keeper_of(ENTRY, "github", forge.api, forge.token, [run], metrics=metrics) as keeper:
                await keeper.round(board_of(run))
        (note,) = forge.state.notes
        assert "merged_elsewhere" in note.body
    assert b'gatewright_forge_alarms_total{forge="shop"} 1.0' in metrics.exposition()


async def test_open_requests_are_offered_to_be_judged() -> None:
    judge = RecordedJudge(refused=frozenset({1}))
    with Standin("github") as forge:
        first, second = forge.state.open_by("ana", "first"), forge.state.open_by("ben", "second")
        async with keeper_of(ENTRY, "github", forge.api, forge.token, [], judge=judge) as keeper:
            keeper.hint(first.number)
            report = await keeper.round(board_of(ForgeRun(key="any", repository="/srv/other").begin()))
    assert judge.seen == [(1, "hint"), (2, second.head)]
    assert len(report.requests) == 2
    assert len(report.faults) == 1


async def test_a_reported_request_is_not_lost_while_the_forge_is_away() -> None:
    class Away(RecordedJudge):
        async def judge(self, number: int) -> Ordered:
            if not self.seen:
                self.seen.append((0, "away"))
                raise UnavailableError("away")
            return await super().judge(number)

    judge = Away()
    with Standin("github") as forge:
        run = ForgeRun(key="any", repository="/srv/other").begin()
        async with keeper_of(ENTRY, "github", forge.api, forge.token, [], judge=judge) as keeper:
            keeper.hint(4)
            with pytest.raises(UnavailableError):
                await keeper.round(board_of(run))
            await keeper.round(board_of(run))
    assert (4, "hint") in judge.seen


async def test_a_run_of_another_repository_is_not_shown() -> None:
    with Standin("github") as forge:
        run = ForgeRun(key="other", number=1, repository="/srv/other").succeed()
        async with keeper_of(entry_with(), "github", forge.api, forge.token, [run]) as keeper:
            report = await keeper.round(board_of(run))
        assert report.runs == []
        assert forge.app.calls == []
