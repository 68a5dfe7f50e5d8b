"""The tech lead has a model split the work under the rules of the plan gate; no other plan takes the place of a broken one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Error, Plan, TaskContract, codec
from gatewright.contracts.task_contract import TaskQuestions
from gatewright.contracts.vocabulary import Executor, Sharding
from gatewright.rules.shards import broken_by_shard, broken_by_split
from gatewright.services.techlead.handler import Settings, make_handler
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Say
from tests.structured.scripted import answering, write_models

FILES = {f"pkg{n}/m{m}.py": b"x\n" for n in range(3) for m in range(2)} | {"pkg0/pyproject.toml": b"[project]\n"}
COMMAND = Executor(kind="command", commands=("python codemod.py {paths}",))
PATHS = ("pkg0", "pkg1", "pkg2")
SPLIT: dict[str, Any] = {
    "summary": "By package; the manifest last.",
    "shards": [
        {"paths": ["pkg0/pyproject.toml"], "batch": "terminal"},
        {"paths": ["pkg2/"], "batch": "broad"},
        {"paths": ["pkg0/m0.py", "pkg0/m1.py"], "batch": "narrow"},
        {"paths": ["pkg1"], "batch": "narrow"},
    ],
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    return make_handler_fixture(tmp_path, FILES)


def planning(fixture: HandlerFixture, shards: int = 4, **changes: object) -> TaskContract:
    task = fixture.contract(task_type="PLAN", task_id="run-0123456789.plan", parent_task_id="run-0123456789.contract")
    return replace(task, **{"allowed_paths": PATHS, "executor": COMMAND, "sharding": Sharding(count=shards), **changes})


async def handled(
    fixture: HandlerFixture, provider: ScriptedProvider, task: TaskContract, consult: tuple[str, ...] = ("techlead",)
) -> Plan | Error:
    folder = write_models(fixture.state / "policies", provider, {"techlead": "plan"})
    handler = make_handler(Settings(home=fixture.state, policies=folder, consult=consult))
    answer = await handler.handle(task, fixture.context())
    return codec.decode(codec.encode(answer), type(answer))


async def test_a_models_split_becomes_a_plan_the_gate_accepts(fixture: HandlerFixture, provider: ScriptedProvider) -> None:
    provider.scripts["plan"] = answering(SPLIT)
    task = planning(fixture)
    plan = await handled(fixture, provider, task)
    assert isinstance(plan, Plan)
    shards = {contract.task_id: contract.allowed_paths for contract in plan.contracts}
    assert sorted(shards.values()) == [("pkg0/m0.py", "pkg0/m1.py"), ("pkg0/pyproject.toml",), ("pkg1",), ("pkg2",)]
    batches = [sorted(path for task_id in batch for path in shards[task_id]) for batch in plan.batches]
    assert batches == [["pkg0/m0.py", "pkg0/m1.py", "pkg1"], ["pkg2"], ["pkg0/pyproject.toml"]]
    assert list(broken_by_split(plan)) == []
    contract = replace(task, task_id="run-0123456789.contract", task_type="IMPLEMENT", parent_task_id=None)
    allowed = scope.AllowedPaths(PATHS)
    assert not any(
        broken.rule in {"allowed_paths", "least_privilege", "task_id"}
        for shard in plan.contracts
        for broken in broken_by_shard(shard, contract, allowed, "run-0123456789")
    )
    assert plan.consultation is not None
    assert plan.consultation.model == "plan-model"


async def test_the_model_passes_questions_on_and_plans_with_its_guess(
    fixture: HandlerFixture, provider: ScriptedProvider
) -> None:
    told = {"question": "Is pkg2 generated?", "best_guess": "no", "fallback_action": "it is a shard like any other"}
    preference = told | {"question": "Should I proceed?"}
    provider.scripts["plan"] = answering(SPLIT | {"blocked": [told, preference]})
    for questions in (TaskQuestions(), None):
        plan = await handled(fixture, provider, planning(fixture, questions=questions))
        assert isinstance(plan, Plan)
        assert len(plan.contracts) == len(SPLIT["shards"])
        assert all(each.questions is None for each in plan.contracts)
        assert plan.consultation is not None
        blocks = [(each.session, each.question, each.can_resume_without_answer) for each in plan.consultation.blocked]
        assert blocks == ([(plan.task_id, "Is pkg2 generated?", True)] if questions is not None else [])
        left = [(each.proposed, each.reason) for each in plan.consultation.clamped]
        unasked = [(each["question"], "blocked_unasked") for each in (told, preference)]
        assert left == ([("Should I proceed?", "blocked_illegal")] if questions is not None else unasked)


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ([{"paths": ["pkg0"], "batch": "narrow"}, {"paths": ["pkg0/m0.py"], "batch": "narrow"}], "may write the same path"),
        ([{"paths": ["pkg0", "other"], "batch": "narrow"}], "other lies outside"),
        ([{"paths": ["/"], "batch": "narrow"}], "whole repository"),
        ([{"paths": [f"pkg{n}"], "batch": "narrow"} for n in range(3)] * 2, "at most 4"),
    ],
)
async def test_a_split_that_the_gate_would_refuse_fails_closed(
    shards: list[Any], words: str, fixture: HandlerFixture, provider: ScriptedProvider
) -> None:
    provider.scripts["plan"] = answering(SPLIT | {"shards": shards})
    error = await handled(fixture, provider, planning(fixture))
    assert isinstance(error, Error)
    assert error.code == "structured_output_invalid"
    assert words in error.message
    assert len(provider.requests) == 3


@pytest.mark.parametrize("turn", [Fail(401), Say("Two shards, I think.")], ids=["refused", "prose"])
async def test_a_model_that_fails_is_not_replaced_by_the_partition(
    turn: Fail | Say, fixture: HandlerFixture, provider: ScriptedProvider
) -> None:
    provider.scripts["plan"] = [turn]
    assert isinstance(await handled(fixture, provider, planning(fixture)), Error)


async def test_no_model_is_asked_without_a_split_or_a_name(fixture: HandlerFixture, provider: ScriptedProvider) -> None:
    one = await handled(fixture, provider, planning(fixture, shards=1))
    unnamed = await handled(fixture, provider, planning(fixture), consult=("pm",))
    assert isinstance(one, Plan)
    assert isinstance(unnamed, Plan)
    assert len(unnamed.contracts) > 1
    assert one.consultation is unnamed.consultation is None
    assert provider.requests == []
