"""A question goes to the model through the gateway of its task: key, count, budget, records and refusals are the gateway's."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import PlanProposal, codec
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import BudgetError, GatewrightError
from gatewright.models.cassettes import Cassette, Playback
from gatewright.models.policy import load_models
from gatewright.structured.answers import ModelCallError, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.structured.recording import consultation_of
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext
from gatewright.telemetry.logs import make_logger
from tests.handler_fixture import MemoryArtifacts, StandingClock
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Hang, Raw, Say, Turn
from tests.models.wire_forms import Api
from tests.structured.conftest import MakeModels
from tests.structured.test_asking import PROMPT, answer
from tests.waiting import until

QUESTION = StructuredQuestion(PROMPT, PlanProposal)


def context() -> TaskContext:
    return TaskContext(MemoryArtifacts(), StandingClock(), make_logger(io.BytesIO()), 1)


@pytest.mark.parametrize("name", ["scripted", "scripted-claude"])
async def test_a_question_is_answered_counted_and_recorded(
    name: str, provider: ScriptedProvider, make_models: MakeModels
) -> None:
    provider.scripts["plan"] = [Say("Sure! Here is the plan.", usage=(1000, 0, 100)), Say(answer(), usage=(2000, 0, 200))]
    task, asking = context(), Asking(QUESTION)
    async with make_models("plan", name=name).session(None, task, "run-1", "run-1.plan") as session:
        proposal = await asking.ask(session)
        record = await consultation_of(asking, proposal, session.spent, task.artifacts)
    assert proposal.shards[0].paths == ("src",)
    assert (record.model, record.asked, record.tokens, record.directive) == (name, 2, 3300, PROMPT.directive)
    assert record.cost_usd == pytest.approx((3000 + 2 * 300) / 1e6)
    assert task.meter.usage is not None
    assert task.meter.usage.tokens == 3300
    kept = {each.name: await task.artifacts.get(each.uri) for each in record.artifacts}
    assert list(kept) == ["prompt.json", "answer-1.txt", "answer-2.txt", "proposed.json", "calls.jsonl", "calls.cassette.jsonl"]
    assert json.loads(kept["prompt.json"]) == {"system": PROMPT.system, "user": PROMPT.order}
    assert codec.decode(kept["proposed.json"], PlanProposal) == proposal
    assert [json.loads(line)["status"] for line in kept["calls.jsonl"].splitlines()] == [200, 200]
    assert KEY not in str(kept)


async def test_the_model_sees_its_own_answer_and_its_faults(provider: ScriptedProvider, make_models: MakeModels) -> None:
    provider.scripts["plan"] = [Say(answer(shards=[])), Say(answer())]
    async with make_models("plan").session(None, context(), "run-1", "run-1.plan") as session:
        await Asking(QUESTION).ask(session)
    first, second = (request.json["messages"] for request in provider.requests)
    assert [message["role"] for message in first] == ["system", "user"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[:2] == first
    assert "/shards: must have at least 1 item(s)" in str(second[3])


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (Fail(401), "model_key_refused"),
        (Fail(400), "model_unavailable"),
        (Raw((b"<html>no</html>",)), "model_unavailable"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_the_gateways_reason(
    turn: Turn, code: str, provider: ScriptedProvider, make_models: MakeModels
) -> None:
    provider.scripts["plan"] = [turn]
    async with make_models("plan").session(None, context(), "run-1", "run-1.plan") as session:
        with pytest.raises(ModelCallError) as error:
            await Asking(QUESTION).ask(session)
    assert error.value.reason == code


@pytest.mark.parametrize(
    ("name", "api", "ending"),
    [
        ("scripted", "chat_completions", "length"),
        ("scripted", "chat_completions", "content_filter"),
        ("scripted-claude", "messages", "max_tokens"),
        ("scripted-claude", "messages", "refusal"),
        ("scripted", "responses", "max_output_tokens"),
    ],
)
async def test_an_answer_that_was_cut_off_is_asked_for_again(
    name: str, api: Api, ending: str, provider: ScriptedProvider, make_models: MakeModels
) -> None:
    provider.scripts["plan"] = [Say(answer(summary="cut"), ending=ending), Say(answer(summary="complete"))]
    asking = Asking(QUESTION)
    models = make_models("plan", name=name, openai=("responses" if api == "responses" else "chat_completions",))
    async with models.session(None, context(), "run-1", "run-1.plan") as session:
        assert (await asking.ask(session)).summary == "complete"
    assert len(asking.answers) == len(provider.requests) == 2
    assert ending in json.dumps(provider.requests[1].json)


async def test_a_missing_key_is_named_before_anything_is_sent(
    provider: ScriptedProvider, make_models: MakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIPTED_KEY")
    async with make_models("plan").session(None, context(), "run-1", "run-1.plan") as session:
        with pytest.raises(GatewrightError) as error:
            await Asking(QUESTION).ask(session)
    assert error.value.reason == "model_key_missing"
    assert "SCRIPTED_KEY" in error.value.message
    assert provider.requests == []


async def test_a_question_beyond_the_budget_is_not_sent(provider: ScriptedProvider, make_models: MakeModels) -> None:
    provider.scripts["plan"] = [Say(answer())]
    async with make_models("plan").session(Budget(tokens=10), context(), "run-1", "run-1.plan") as session:
        with pytest.raises(BudgetError):
            await Asking(QUESTION).ask(session)
    assert provider.requests == []


async def test_a_socket_in_a_long_path_works_and_disappears(
    provider: ScriptedProvider, make_models: MakeModels, tmp_path: Path
) -> None:
    provider.scripts["plan"] = [Say(answer())]
    folder = tmp_path / ("long" * 30) / "sockets"
    async with make_models("plan", sockets=folder).session(None, context(), "run-1", "run-1.plan") as session:
        assert len(list(folder.iterdir())) == 1
        await Asking(QUESTION).ask(session)
    assert list(folder.iterdir()) == []


async def test_the_pm_is_set_up_only_where_a_key_can_be_had(make_models: MakeModels, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = [make_models("plan", role=role).configured for role in ("pm", "techlead", "reviewer")]
    monkeypatch.delenv("SCRIPTED_KEY")
    found += [make_models("plan", role=role).configured for role in ("pm", "techlead", "reviewer")]
    assert found == [True, True, True, False, True, True]


async def test_a_recorded_question_is_answered_without_key_or_provider(
    provider: ScriptedProvider, make_models: MakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.scripts["plan"] = [Say("Sure!"), Say(answer())]
    task, asking = context(), Asking(QUESTION)
    async with make_models("plan").session(None, task, "run-1", "run-1.plan") as session:
        proposal = await asking.ask(session)
        record = await consultation_of(asking, proposal, session.spent, task.artifacts)
    (tape,) = [each for each in record.artifacts if each.name == "calls.cassette.jsonl"]
    (tmp_path / "plan.cassette.jsonl").write_bytes(await task.artifacts.get(tape.uri))
    monkeypatch.delenv("SCRIPTED_KEY")
    provider.requests.clear()
    models = RoleModels("techlead", load_models(tmp_path), pool="default", playback=Playback(tmp_path))
    # In another run the task has another id, and the same place.
    async with models.session(None, context(), "run-2", "run-2.plan") as session:
        assert await Asking(QUESTION).ask(session) == proposal
    async with models.session(None, context(), "run-2", "run-2.review.a1") as session:
        with pytest.raises(ModelCallError) as error:
            await Asking(QUESTION).ask(session)
    assert error.value.reason == "cassette_miss"
    assert provider.requests == []


def test_a_pm_without_a_key_may_play(make_models: MakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_models("plan", "pm").configured
    monkeypatch.delenv("SCRIPTED_KEY")
    assert not make_models("plan", "pm").configured
    assert RoleModels("pm", load_models(tmp_path), pool="default", playback=Playback(tmp_path)).configured


async def test_a_question_that_is_interrupted_leaves_its_call(provider: ScriptedProvider, make_models: MakeModels) -> None:
    provider.scripts["plan"] = [Hang()]
    task = context()

    async def ask() -> None:
        async with make_models("plan").session(None, task, "run-1", "run-1.plan") as session:
            await Asking(QUESTION).ask(session)

    asking = asyncio.create_task(ask())
    await until(lambda: bool(provider.requests))
    asking.cancel()
    await asyncio.wait({asking})
    kept = {each.name: await task.artifacts.get(each.uri) for each in task.left}
    (line,) = kept["model_calls"].splitlines()
    assert json.loads(line)["sent"][0]["bytes"] == len(provider.requests[0].body)
    assert Cassette.read(kept["model_cassette"]).head.incomplete
    assert task.meter.usage is not None
    assert task.meter.usage.incomplete
