"""Runs that wait for paths: parked in the ledger, woken by the release in any gatekeeper, found again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.port import TASK_TOKEN_HEADER, TRACE_HEADER, Message
from gatewright.bus.topology import result_subject
from gatewright.contracts import AbortRequest, codec
from gatewright.contracts.vocabulary import LandingMode, Priority
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.ledger.store import Ledger
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, RoleReplied, Submitted
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, make_plan, open_gatekeeper
from tests.gatekeeper.intake.test_result_consumer import Given
from tests.gatekeeper.publishing import make_result_consumer
from tests.gatekeeper.test_replicas import another
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

HOLDER, FIRST, SECOND = (f"run-{name:a<20}" for name in "012")


class SleepingConductor(Orchestrator):
    """Its process is killed between the release of locks and the waking of those who wait for them."""

    async def _wake(self, run_id: str) -> None:
        return


@dataclass
class Runs:
    """Several runs on one file of one repository."""

    gatekeeper: Gatekeeper
    one: Orchestrator
    other: Orchestrator

    async def begin(
        self, run_id: str, by: Orchestrator, *, landing: LandingMode = "target", priority: Priority = "normal"
    ) -> Run:
        """Submitted and planned: it has its paths now, or waits for them."""
        repository = self.gatekeeper.repository
        target = "refs/heads/main" if landing == "target" else None
        contract = replace(
            contract_on(repository),
            priority=priority,
            repository=RepositoryField(url=repository.url, target_ref=target, landing=landing),
        )
        await by.advance(run_id, Submitted(run_id, "0" * 32, contract, "0" * 64, "submit"))
        await by.advance(run_id, RoleReplied("techlead", make_plan(await self.run(run_id)), f"plan:{run_id}"))
        return await self.run(run_id)

    async def abort(self, run_id: str, by: Orchestrator) -> None:
        request = AbortRequest(run_id=run_id, reason="enough", requested_by="tests")
        await by.advance(run_id, AbortReceived(request, f"abort:{run_id}"))
        await self.woken()

    async def woken(self) -> None:
        while tasks := {*self.one.background, *self.other.background}:
            await asyncio.gather(*tasks)

    async def run(self, run_id: str) -> Run:
        run = (await Ledger(self.gatekeeper.bus).load(run_id)).run
        assert run is not None
        return run

    async def states(self, *run_ids: str) -> list[str]:
        return [(await self.run(run_id)).state for run_id in run_ids]


@pytest.fixture
async def runs(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Runs]:
    repository = make_repository()
    repository.git("checkout", "--quiet", "--detach")  # runs land on its branch
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        one = another(gatekeeper.orchestrator, tmp_path, runs="runs-1")
        yield Runs(gatekeeper, one, another(gatekeeper.orchestrator, tmp_path))


async def test_a_run_that_waits_goes_on_when_the_paths_are_released(runs: Runs) -> None:
    assert (await runs.begin(HOLDER, runs.one)).state == "S2"
    waiting = await runs.begin(FIRST, runs.one)
    assert (waiting.state, waiting.waiting_for_locks) == ("S1", True)
    await runs.abort(HOLDER, runs.one)
    assert await runs.states(HOLDER, FIRST) == ["ABORTED", "S2"]


async def test_a_release_in_one_gatekeeper_wakes_who_waits_in_another(runs: Runs) -> None:
    await runs.begin(HOLDER, runs.one)
    await runs.begin(FIRST, runs.other)
    await runs.begin(SECOND, runs.one)
    await runs.abort(HOLDER, runs.one)
    assert await runs.states(FIRST, SECOND) == ["S2", "S1"]
    await runs.abort(FIRST, runs.other)
    assert await runs.states(SECOND) == ["S2"]


async def test_an_aborted_waiting_run_blocks_no_other(runs: Runs) -> None:
    await runs.begin(HOLDER, runs.one)
    await runs.begin(FIRST, runs.one)
    await runs.begin(SECOND, runs.one)
    await runs.abort(FIRST, runs.other)
    assert await runs.states(FIRST, SECOND) == ["ABORTED", "S1"]
    await runs.abort(HOLDER, runs.one)
    assert await runs.states(SECOND) == ["S2"]


async def test_the_more_urgent_run_is_woken_first(runs: Runs) -> None:
    await runs.begin(HOLDER, runs.one)
    await runs.begin(FIRST, runs.one, priority="low")
    await runs.begin(SECOND, runs.other, priority="high")
    await runs.abort(HOLDER, runs.one)
    assert await runs.states(FIRST, SECOND) == ["S1", "S2"]


async def test_a_starting_gatekeeper_repairs_a_lost_wake_up(runs: Runs) -> None:
    killed = SleepingConductor(**{name: getattr(runs.one, name) for name in vars(runs.one) if name != "dispatcher"})
    await runs.begin(HOLDER, killed)
    await runs.begin(FIRST, killed)
    await runs.abort(HOLDER, killed)
    assert await runs.states(FIRST) == ["S1"]
    await LedgerFollower(runs.other).resume()
    assert await runs.states(FIRST) == ["S2"]


async def test_runs_that_land_on_branches_of_their_own_do_not_wait(runs: Runs) -> None:
    for run_id in (HOLDER, FIRST, SECOND):
        await runs.begin(run_id, runs.one, landing="branch")
    assert await runs.states(HOLDER, FIRST, SECOND) == ["S2", "S2", "S2"]


async def test_the_input_of_a_run_that_has_to_wait_is_done_with(runs: Runs) -> None:
    """It is not given back to its queue to be brought again and again."""
    orchestrator = runs.one
    limits = PublisherLimits(PublisherRuns(orchestrator.clock, frozenset()), orchestrator.clock)
    results = make_result_consumer(orchestrator, limits, SecretScanner())
    await runs.begin(HOLDER, orchestrator)
    contract = replace(contract_on(runs.gatekeeper.repository), repository=(await runs.run(HOLDER)).contract.repository)  # type: ignore[union-attr] # it has one
    await orchestrator.advance(FIRST, Submitted(FIRST, "0" * 32, contract, "0" * 64, "submit"))
    plan = make_plan(await runs.run(FIRST))
    headers = {"Gw-Schema": "plan.v1", "Nats-Msg-Id": "plan", TRACE_HEADER: ""}
    headers[TASK_TOKEN_HEADER] = task_token(orchestrator.bus, FIRST, plan.task_id)
    message = Message(result_subject("techlead"), codec.encode(plan), headers, 7)
    delivery = Given(message, 1)
    await results.handle(delivery)
    assert (await runs.run(FIRST)).waiting_for_locks
    assert delivery.settled == ["ack"]


async def test_locks_that_pass_from_run_to_run_never_have_two_holders(runs: Runs) -> None:
    names = [f"run-{number:020}" for number in range(12)]
    both = (runs.one, runs.other)
    for number, name in enumerate(names):
        await runs.begin(name, both[number % 2])
    for number, name in enumerate(names):
        states = await runs.states(*names)
        assert states.count("S2") == 1
        assert states.index("S2") == number
        await runs.abort(name, both[(number // 2) % 2])
    assert set(await runs.states(*names)) == {"ABORTED"}
