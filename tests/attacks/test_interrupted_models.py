"""A run that ends while a model is asked keeps what is known of the call: its records, its use and the incomplete cassette."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import result_subject
from gatewright.clock import SystemClock
from gatewright.contracts import AbortRequest
from gatewright.contracts.vocabulary import Budget, Executor
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.models.cassettes import Playback
from gatewright.resources import policy_directory
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Continue, DeadlineReached
from gatewright.services.gatekeeper.intake.result_consumer import answer_of
from gatewright.services.gatekeeper.orchestrator import ACCOUNT_PATIENCE
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.tasks.runner import Runner, RunnerOptions
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from gatewright.view.budgets import budget_entry, budget_words
from gatewright.view.run_view import view_of
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Hang, Raw, Script
from tests.waiting import PATIENCE

LIMITS = Budget(tokens=100_000, wall_sec=3600)
#: A reply whose head comes, and then a little of it, for ever.
DRIBBLE = Raw(
    (b'{"choices": [', *(b'"' + b"word " * 200 + b'", ' for _ in range(4)), *(b" " for _ in range(10_000))), delay=0.05
)
SCRIPTS: dict[str, Script] = {"silent": [Hang()], "cut": [DRIBBLE]}
QUICK = RunnerOptions(drain=0.1, patience=10.0, pause=0.01)


@dataclass
class ModelAtWork:
    """A gatekeeper whose one run waits for a model, the worker that asks it, and the provider of the model."""

    gatekeeper: Gatekeeper
    clock: HandClock
    provider: ScriptedProvider
    stop: asyncio.Event
    serving: asyncio.Task[None]
    folder: Path
    taken: int = 0

    async def asked(self) -> None:
        """Until the provider has the request, and the gatekeeper knows of it."""
        async with asyncio.timeout(PATIENCE):
            while not self.provider.requests or not self.taken:
                await self.take()
                await asyncio.sleep(0.01)

    async def take(self) -> None:
        """Let the gatekeeper take what roles have published since."""
        subject = result_subject("worker")
        messages = [message async for message in self.gatekeeper.bus.replay(subject)]
        for message in messages[self.taken :]:
            await self.gatekeeper.orchestrator.advance(RUN, answer_of(message))
        self.taken = len(messages)

    async def sealed(self) -> Run:
        async with asyncio.timeout(PATIENCE):
            while (run := await self.gatekeeper.run()).sealed is None:
                await self.take()
                await asyncio.sleep(0.01)
        return run

    async def abort(self) -> None:
        request = AbortRequest(run_id=RUN, reason="enough", requested_by="ana")
        await self.gatekeeper.orchestrator.advance(RUN, AbortReceived(request, "abort"))

    async def leave(self) -> None:
        """The worker's process is told to end."""
        self.stop.set()
        await self.serving

    @property
    def bundle(self) -> Path:
        return self.folder / "runs" / RUN

    async def words(self) -> str:
        records = [each for step in (await self.gatekeeper.orchestrator.ledger.get(RUN)).transitions for each in step.events]
        view = view_of(records)
        assert view is not None
        return budget_words(budget_entry(view))


@asynccontextmanager
async def model_at_work(repository: Repository, folder: Path, script: str) -> AsyncIterator[ModelAtWork]:
    with ScriptedProvider(SCRIPTS) as provider:
        policies = Path(shutil.copytree(policy_directory(), folder / "policies"))
        (policies / "models.json").write_text(json.dumps(provider.policy(script, openai=("chat_completions",))))
        clock = HandClock()
        async with open_gatekeeper(repository, folder, policies=policies, clock=clock) as gatekeeper:
            contract = contract_on(repository, executor=Executor(kind="model", model="scripted"), budget=LIMITS)
            await gatekeeper.submit(contract)
            await gatekeeper.plan()
            runner = Runner(
                "worker",
                make_handler(Settings(home=folder / "worker", policies=policies)),
                MemoryBus(gatekeeper.bus.server),
                clock=SystemClock(),
                log=make_logger(io.BytesIO()),
                metrics=Metrics("worker"),
                options=QUICK,
            )
            stop = asyncio.Event()
            serving = asyncio.create_task(runner.run(stop))
            try:
                yield ModelAtWork(gatekeeper, clock, provider, stop, serving, folder)
            finally:
                serving.cancel()
                await asyncio.wait({serving})


@pytest.fixture
def repository(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    return make_repository(files={"README.md": b"text\n"})


def call_in(bundle: Path) -> dict[str, object]:
    """The one record of a call that interrupted work has left."""
    (records,) = bundle.glob("interrupted/*/01/calls.jsonl")
    (line,) = records.read_text().splitlines()
    call: dict[str, object] = json.loads(line)
    return call


async def by_abort(work: ModelAtWork) -> None:
    await work.abort()


async def by_the_clock(work: ModelAtWork) -> None:
    work.clock.seconds += 4000
    await work.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))


async def by_drain(work: ModelAtWork) -> None:
    await work.leave()
    await work.take()
    await work.abort()
    work.clock.seconds += ACCOUNT_PATIENCE + 1
    await work.gatekeeper.orchestrator.advance(RUN, Continue("later"))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("end", [by_abort, by_the_clock, by_drain])
async def test_a_run_ended_while_a_model_answers_shows_the_call(
    repository: Repository, tmp_path: Path, script: str, end: Callable[[ModelAtWork], Awaitable[None]]
) -> None:
    async with model_at_work(repository, tmp_path, script) as work:
        await work.asked()
        await end(work)
        run = await work.sealed()
        (request,) = work.provider.requests
        call = call_in(work.bundle)
        assert (call["incomplete"], call["whole"]) == (True, False)
        assert [(each["provider"], each["bytes"]) for each in call["sent"]] == [("scripted-openai", len(request.body))]  # type: ignore[attr-defined]
        known = "unknown tokens, limit 100,000" if script == "silent" else "at least "
        assert known in await work.words()
        assert "0 of 100,000" not in await work.words()
        assert verify(work.bundle, [keys.load(tmp_path / "key.pem").public]).findings == ()
        usage = [each for task in run.tasks.values() for each in task.usage.values()]
        assert [each.iterations for each in usage] == [1]
        assert (usage[0].tokens > 0) is (script == "cut")


async def test_a_cassette_of_interrupted_work_is_not_played_as_a_whole(repository: Repository, tmp_path: Path) -> None:
    async with model_at_work(repository, tmp_path, "cut") as work:
        await work.asked()
        await work.abort()
        await work.sealed()
        cassette = Playback(work.bundle).cassette("plan.w01")
        assert cassette.head.incomplete
        (call,) = cassette.calls
        assert not call.whole
        assert cassette.find(call.request.encode()) is not None
        assert "the recording is incomplete" in cassette.miss(call.request.encode()).message


async def test_a_worker_that_was_killed_leaves_an_unknown_amount(repository: Repository, tmp_path: Path) -> None:
    async with model_at_work(repository, tmp_path, "silent") as work:
        await work.asked()
        work.serving.cancel()
        await asyncio.wait({work.serving})
        seen = work.taken
        await work.abort()
        run = await work.gatekeeper.run()
        assert (run.ended, run.sealed, work.taken) == (True, None, seen)
        work.clock.seconds += ACCOUNT_PATIENCE + 1
        await work.gatekeeper.orchestrator.advance(RUN, Continue("later"))
        assert (await work.sealed()).sealed is not None
        assert "unknown tokens, limit 100,000" in await work.words()


async def test_the_seal_of_a_run_that_asked_no_model_waits_for_nothing(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path, clock=HandClock()) as gatekeeper:
        await gatekeeper.submit(contract_on(repository, budget=LIMITS))
        await gatekeeper.plan()
        request = AbortRequest(run_id=RUN, reason="enough", requested_by="ana")
        await gatekeeper.orchestrator.advance(RUN, AbortReceived(request, "abort"))
        assert (await gatekeeper.run()).sealed is not None
