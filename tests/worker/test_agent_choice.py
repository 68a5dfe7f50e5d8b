"""Which agent makes a change where the contract names none: the first that may, not the first that lies there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gatewright.agents.admission_record import ADMISSION, ADMISSIONS
from gatewright.agents.installation import usable_agent
from gatewright.agents.policy import AgentEntry, AgentsPolicy, Api, Versions
from gatewright.contracts.vocabulary import Executor, ToolPermissions
from gatewright.errors import ConfigurationError, DeniedError, MalformedError, UnavailableError
from gatewright.models.policy import ModelEntry, ModelsPolicy, Provider, Route
from gatewright.policy_files import EnvironmentKey
from gatewright.services.worker.agents.probe.result import Step, StepResult
from gatewright.services.worker.executors.agent_choice import AgentChoice
from gatewright.services.worker.executors.port import Job
from tests.handler_fixture import HandlerFixture
from tests.worker.agents.admissions import admit

MakeChoice = Callable[..., AgentChoice]
NAMES = ("one", "two", "three")
KEYS: Mapping[Api, str] = {"messages": "KEY_OF_MESSAGES", "responses": "KEY_OF_RESPONSES"}


def entry(name: str, api: str = "messages") -> AgentEntry:
    return AgentEntry.model_validate(
        {
            "name": name,
            "protocol": "acp",
            "api": api,
            "program": (f"{name}/program",),
            "package": f"{name}/package.json",
            "versions": Versions(since="1", before="2"),
        }
    )


@pytest.fixture
def make_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeChoice:
    monkeypatch.setenv("KEY_OF_MESSAGES", "there")
    monkeypatch.delenv("KEY_OF_RESPONSES", raising=False)

    def make(*installed: str, apis: dict[str, str] | None = None) -> AgentChoice:
        for name in installed:
            place = tmp_path / "installation" / name
            place.mkdir(parents=True)
            (place / "program").write_text(name)
            (place / "package.json").write_text('{"version": "1.0"}')
        entries = tuple(entry(name, (apis or {}).get(name, "messages")) for name in NAMES)
        providers = tuple(
            Provider(name=api, apis=(api,), base_url="https://localhost", key=EnvironmentKey(environment=key))
            for api, key in KEYS.items()
        )
        models = ModelsPolicy(
            version="1",
            providers=providers,
            models=tuple(ModelEntry(name=f"model-{each.name}", provider=each.name, price=None) for each in providers),
            routes=(Route(role="worker", models=("model-messages", "model-responses")),),
        )
        agents = AgentsPolicy(version="1", masked=(), agents=entries)
        return AgentChoice(agents, models, (tmp_path / "installation",), tmp_path / ADMISSIONS)

    return make


async def tree_of(job: Job) -> str:
    return await job.mirror.tree_of(job.baseline)


def probed(choice: AgentChoice, home: Path, name: str, *failed: Step) -> None:
    steps = [StepResult(step=step, outcome="failed", found="it did") for step in failed]
    admit(home, usable_agent(choice.agents.agent(name), choice.installations), *steps)


@pytest.fixture
async def job(fixture: HandlerFixture) -> Job:
    mirror = await fixture.mirror()
    return Job(fixture.contract(executor=Executor(kind="agent")), "", mirror, fixture.baseline, fixture.artifacts)


async def test_one_that_is_installed_and_was_never_probed_is_passed_over(
    make_choice: MakeChoice, job: Job, tmp_path: Path
) -> None:
    choice = make_choice("one", "two", "three")
    probed(choice, tmp_path, "two", "cancel")
    probed(choice, tmp_path, "three")
    assert (await choice.choose(job, await tree_of(job)))[0].entry.name == "three"
    assert b'"three"' in job.kept[ADMISSION]


async def test_one_that_cannot_be_held_to_the_contract_is_passed_over(
    make_choice: MakeChoice, fixture: HandlerFixture, job: Job, tmp_path: Path
) -> None:
    choice = make_choice("one", "two")
    probed(choice, tmp_path, "one", "asks")
    probed(choice, tmp_path, "two")
    assert (await choice.choose(job, await tree_of(job)))[0].entry.name == "one"
    asking = ToolPermissions(filesystem="workspace-write", shell="on-request", network="deny", mcp_tools=())
    contract = fixture.contract(executor=Executor(kind="agent"), tool_permissions=asking)
    held = Job(contract, "", job.mirror, job.baseline, job.artifacts)
    assert (await choice.choose(held, await tree_of(held)))[0].entry.name == "two"


async def test_one_whose_models_key_is_missing_is_passed_over(make_choice: MakeChoice, job: Job, tmp_path: Path) -> None:
    choice = make_choice("one", "two", apis={"one": "responses"})
    probed(choice, tmp_path, "one")
    probed(choice, tmp_path, "two")
    assert (await choice.choose(job, await tree_of(job)))[0].entry.name == "two"


async def test_one_that_cannot_ask_the_model_of_the_contract_is_passed_over(
    make_choice: MakeChoice, fixture: HandlerFixture, job: Job, tmp_path: Path
) -> None:
    choice = make_choice("one", "two", apis={"one": "responses"})
    probed(choice, tmp_path, "one")
    probed(choice, tmp_path, "two")
    contract = fixture.contract(executor=Executor(kind="agent", model="model-messages"))
    held = Job(contract, "", job.mirror, job.baseline, job.artifacts)
    assert (await choice.choose(held, await tree_of(held)))[0].entry.name == "two"


async def test_none_that_may_is_refused_for_what_keeps_those_that_are_here(
    make_choice: MakeChoice, job: Job, tmp_path: Path
) -> None:
    choice = make_choice("two", apis={"two": "responses"})
    with pytest.raises(DeniedError, match="gatewright agents probe two") as refused:
        await choice.choose(job, await tree_of(job))
    assert refused.value.reason == "agent_not_admitted"
    assert "not installed" not in refused.value.message
    probed(choice, tmp_path, "two")
    with pytest.raises(ConfigurationError, match="KEY_OF_RESPONSES") as keyless:
        await choice.choose(job, await tree_of(job))
    assert keyless.value.reason == "model_key_missing"


async def test_a_host_without_agents_cannot_do_the_task(make_choice: MakeChoice, job: Job) -> None:
    with pytest.raises(UnavailableError) as caught:
        await make_choice().choose(job, await tree_of(job))
    assert caught.value.reason == "agent_not_installed"


async def test_the_one_that_is_named_is_taken_or_none(
    make_choice: MakeChoice, fixture: HandlerFixture, job: Job, tmp_path: Path
) -> None:
    choice = make_choice("one", "two")
    probed(choice, tmp_path, "one")
    for name, kind in (("two", DeniedError), ("three", UnavailableError), ("four", MalformedError)):
        contract = fixture.contract(executor=Executor(kind="agent", agent=name))
        with pytest.raises(kind):
            await choice.choose(Job(contract, "", job.mirror, job.baseline, job.artifacts), await tree_of(job))
