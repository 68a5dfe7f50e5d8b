"""Which pool a run's needs lead to: by the operator's file, told at intake, kept in the ledger, the same after a restart."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import consumers
from gatewright.contracts import RunRequest, SubmitReply
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.resources import policy_directory
from gatewright.run.state import Run, TaskRole
from gatewright.run.states import State
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.inputs import Continue
from gatewright.services.gatekeeper.gates.contract.policy import judge_pools
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.policies.pools import ONE_POOL, PooledRole, PoolsPolicy, RunNeeds
from tests.factories import make_contract
from tests.gatekeeper.contexts import delivered_policies, make_context
from tests.gatekeeper.publishing import make_publisher, open_intake
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script, SimulatedRun

POOLS = PoolsPolicy.model_validate(
    {
        "version": "1",
        "pools": [
            {"name": "default", "agents": [], "languages": ["python", "node"]},
            {"name": "coders", "agents": ["codex", "claude"], "roles": ["worker"]},
            {"name": "gpu", "offers": ["gpu", "zone:eu"], "agents": []},
            {"name": "rust", "languages": ["rust"]},
        ],
    }
)
NOTHING = RunNeeds()


def needs(language: str = "", agent: str = "", *named: str) -> RunNeeds:
    return RunNeeds(frozenset(filter(None, [language])), frozenset(filter(None, [agent])), frozenset(named))


@pytest.mark.parametrize(
    ("role", "wanted", "pool"),
    [
        ("worker", NOTHING, "default"),
        ("worker", needs("python"), "default"),
        ("worker", needs("rust"), "coders"),
        ("testrunner", needs("rust"), "gpu"),
        ("worker", needs("python", "codex"), "coders"),
        ("testrunner", needs("python", "codex"), "default"),
        ("worker", needs("", "", "gpu", "zone:eu"), "gpu"),
        ("worker", needs("rust", "gemini"), "rust"),
    ],
)
def test_the_first_pool_of_the_file_that_has_all_needs_is_taken(role: PooledRole, wanted: RunNeeds, pool: str) -> None:
    assert POOLS.choose(role, wanted) == pool


def test_an_unknown_pool_word_is_refused_with_the_pools_named() -> None:
    with pytest.raises(DeniedError) as refused:
        POOLS.choose("worker", needs("", "", "tpu"))
    assert refused.value.reason == "need_unknown"
    assert all(name in refused.value.message for name in ("tpu", "default", "coders", "gpu", "rust"))


def test_needs_that_no_pool_has_together_are_refused() -> None:
    with pytest.raises(DeniedError) as refused:
        POOLS.choose("worker", needs("python", "codex", "gpu"))
    assert refused.value.reason == "no_pool_for_needs"
    assert "language python, agent codex, gpu" in refused.value.message


def test_without_a_file_unnamed_runs_use_the_default_pool() -> None:
    assert ONE_POOL.placement(needs("rust", "codex")) == {"worker": "default", "testrunner": "default"}
    with pytest.raises(DeniedError, match="no pool offers gpu"):
        ONE_POOL.choose("worker", needs("", "", "gpu"))


@pytest.mark.parametrize(
    "pools",
    [
        [],
        [{"name": "a"}, {"name": "a"}],
        [{"name": "a", "roles": ["worker"]}],
        [{"name": "a.b"}],
        [{"name": "a", "offers": ["A GPU"]}],
        [{"name": "a", "zones": ["eu"]}],
        [{"name": "a", "languages": ["cobol"]}],
        [{"name": "a", "roles": []}],
    ],
)
def test_a_file_that_is_wrong_stops_the_gatekeeper_by_name(pools: list[dict[str, Any]], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (folder / "pools.json").write_text(json.dumps({"version": "1", "pools": pools}))
    with pytest.raises(ConfigurationError, match=r"pools\.json"):
        load(folder)


def test_the_file_is_part_of_the_digest_of_the_policies(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    before = load(folder)
    (folder / "pools.json").write_text(POOLS.model_dump_json())
    after = load(folder)
    assert before.pools == ONE_POOL
    assert after.pools == POOLS
    assert before.sha256 != after.sha256
    assert set(after.digests) - set(before.digests) == {"pools.json"}


def test_a_pool_without_queues_stops_the_gatekeeper() -> None:
    POOLS.check_served(("default", "coders", "gpu", "rust"))
    with pytest.raises(ConfigurationError, match=r"coders, rust.*GATEWRIGHT_POOLS"):
        POOLS.check_served(("default", "gpu"))


def test_the_policy_gate_names_pools_and_refuses_impossible_ones() -> None:
    policies = dataclasses.replace(delivered_policies(), pools=POOLS)
    context = make_context(RUN_ID, "policy", policies)
    agent = Executor(kind="agent", agent="codex")
    judge_pools(context, make_contract(RUN_ID, executor=agent))
    told = {rule.rule: rule.detail for rule in context.close().rules}
    assert told == {"pools.worker": "coders, for agent codex", "pools.testrunner": "default, for nothing in particular"}
    context = make_context(RUN_ID, "policy", policies)
    judge_pools(context, make_contract(RUN_ID, executor=agent, needs=("gpu",)))
    report = context.close()
    assert (report.verdict, report.code) == ("FAIL", "no_pool_for_needs")


async def test_a_request_for_what_no_pool_offers_is_refused_at_intake(
    bus: MemoryBus, gates: GateEngine, tmp_path: Path, request_for: RunRequest
) -> None:
    intake = open_intake(bus, gates, tmp_path, make_publisher("default"))
    reply = await intake.submit(replace(request_for, needs=("gpu",)))
    assert isinstance(reply, SubmitReply)
    run = await intake.run(reply.run_id)
    assert run is not None
    assert run.failure is not None
    assert run.failure.code == "need_unknown"
    assert "default (any language; any agent)" in run.failure.message
    intake.following[0].cancel()


async def test_the_ledger_records_the_pool_that_gets_the_task(
    bus: MemoryBus, gates: GateEngine, tmp_path: Path, request_for: RunRequest
) -> None:
    await ensure_topology(bus, queues=consumers(("default", "coders", "gpu", "rust")))
    gates = dataclasses.replace(gates, policies=dataclasses.replace(gates.policies, pools=POOLS))
    intake = open_intake(bus, gates, tmp_path, make_publisher("default"))
    reply = await intake.submit(replace(request_for, needs=("gpu",)))
    assert isinstance(reply, SubmitReply)
    run = await intake.run(reply.run_id)
    assert run is not None
    assert run.pools == {"worker": "gpu", "testrunner": "gpu"}
    intake.following[0].cancel()


@pytest.mark.parametrize("from_contract", [True, False])
def test_tasks_go_to_the_pools_that_the_ledger_names(from_contract: bool) -> None:
    world = SimulatedRun(Script(from_contract=from_contract))
    while world.run is None or world.run.candidate is None:
        world.deliver(world.under_way.pop(0))
    assert {task.pool for task in world.run.tasks.values()} == {"default"}
    task = world.run.workers()[0]
    pools = []
    turns: tuple[tuple[State, TaskRole], ...] = (("S2", "worker"), ("S3", "reviewer"), ("S4", "testrunner"))
    for state, role in turns:
        run: Run = replace(world.run, state=state, tasks={}, pools={"worker": "gpu", "testrunner": "rust"})
        run = run.with_tasks(replace(task, status="PENDING")) if role == "worker" else run
        draft = Draft(run, Continue("next"), NOW)
        draft.dispatch(task.task_id if role == "worker" else f"{task.task_id}.{role}", role, task.contract)
        transition = draft.transition()
        assert transition is not None
        pools += [command.pool for command in transition.commands]
    assert pools == ["gpu", "default", "rust"]
