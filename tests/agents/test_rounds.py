"""Real agents in a round of fixing: the session goes on in the home of another worker, or a fresh one says why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract, TaskResult, TestReport, codec
from gatewright.contracts.vocabulary import Agent, Executor
from gatewright.models.cassettes import SUFFIX
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.agents.conftest import INSTALLATION, NATIVE, admit_installed
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider

REPORT = TestReport(
    run_id="run-0123456789",
    task_id="run-0123456789.test.a1",
    runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
    started_at="2026-01-02T03:04:05Z",
    finished_at="2026-01-02T03:04:06Z",
    status="FAIL",
    commands=(),
    artifacts=(),
)
FILES = {"src/a.py": b"a = 1\n", "src/b.py": b"b = 1\n"}
#: Those that can be asked to go on with a session that another process of them began.
RESUMING = (*NATIVE, "claude-agent-acp", "gemini-cli", "qwen-code", "opencode")
every_agent = pytest.mark.parametrize("agent", RESUMING)


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


def worker_of(
    fixture: HandlerFixture,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    rounds: str,
    name: str,
    cassette: Path | None = None,
) -> WorkerHandler:
    """A worker with a home of its own, whose models play the script ``carried``."""
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    home = fixture.state.parent / name
    policies = Path(shutil.copytree(policy_directory(), home / "policies"))
    (policies / "models.json").write_text(json.dumps(provider.policy("carried")))
    listed: dict[str, Any] = json.loads((policies / "agents.json").read_text())
    for entry in listed["agents"]:
        entry["rounds"] = rounds if "session_files" in entry else "fresh"
    (policies / "agents.json").write_text(json.dumps(listed))
    admit_installed(home, policies)
    return make_handler(Settings(home=home, policies=policies, agent_installations=(INSTALLATION,), cassette=cassette))


async def work(fixture: HandlerFixture, worker: WorkerHandler, contract: TaskContract) -> TaskResult:
    result = await worker.handle(contract, fixture.context())
    assert (result.status, result.failure) == ("SUCCESS", None), transcript(fixture, result)
    return result


def contract_for(fixture: HandlerFixture, agent: str) -> TaskContract:
    contract = fixture.contract(executor=Executor(kind="agent", agent=agent), allowed_paths=("src",))
    return replace(contract, timeout_retry=replace(contract.timeout_retry, timeout_sec=300))


def next_round(fixture: HandlerFixture, agent: str, result: TaskResult, session: bytes | None) -> TaskContract:
    left = {"test_report": codec.encode(REPORT), "patch": fixture.artifacts.stored[result.git.patch]}
    left |= {"session": session} if session is not None else {}
    held = tuple(fixture.artifacts.hold(f"failed.{name}.a1", data) for name, data in left.items())
    contract = contract_for(fixture, agent)
    return replace(contract, attempt=2, inputs=replace(contract.inputs, artifacts=held))


def kept(fixture: HandlerFixture, result: TaskResult, name: str) -> bytes | None:
    found = (artifact for artifact in result.artifacts if artifact.name == name)
    return next((fixture.artifacts.stored[artifact.uri] for artifact in found), None)


def transcript(fixture: HandlerFixture, result: TaskResult) -> str:
    return (kept(fixture, result, "codex_transcript") or b"").decode()


@every_agent
async def test_a_session_goes_on_in_the_home_of_another_worker(
    fixture: HandlerFixture, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    result = await work(fixture, worker_of(fixture, provider, monkeypatch, "resume", "one"), contract_for(fixture, agent))
    session = kept(fixture, result, "agent_session")
    assert session is not None, transcript(fixture, result)
    assert KEY.encode() not in session
    other = worker_of(fixture, provider, monkeypatch, "resume", "two")
    again = await work(fixture, other, next_round(fixture, agent, result, session))
    assert "I recall the half" in transcript(fixture, again)
    assert kept(fixture, again, "codex_thread_id") == kept(fixture, result, "codex_thread_id")
    tree, patch = await fixture.changed({"src/half.py": b"edited = True\n", "src/rest.py": b"edited = True\n"})
    assert tree
    assert fixture.artifacts.stored[again.git.patch] == patch


@pytest.mark.parametrize("agent", NATIVE)
async def test_a_resumed_session_resumes_again_on_recorded_calls(
    fixture: HandlerFixture, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, agent: str
) -> None:
    worker = worker_of(fixture, provider, monkeypatch, "resume", "one")
    result = await work(fixture, worker, contract_for(fixture, agent))
    order = next_round(fixture, agent, result, kept(fixture, result, "agent_session"))
    again = await work(fixture, worker, order)
    asked, session = len(provider.requests), None
    for number, recorded in enumerate((result, again)):
        tape = tmp_path / f"tape-{number}"
        tape.mkdir()
        (tape / f"a{SUFFIX}").write_bytes(kept(fixture, recorded, "model_cassette") or b"")
        player = worker_of(fixture, provider, monkeypatch, "resume", f"player-{number}", tape)
        contract = contract_for(fixture, agent) if number == 0 else next_round(fixture, agent, result, session)
        played = await work(fixture, player, contract)
        session = kept(fixture, played, "agent_session")
        assert played.git.patch == recorded.git.patch
    assert "I recall the half" in transcript(fixture, played)
    assert len(provider.requests) == asked


@every_agent
async def test_a_fresh_session_knows_the_round_before_by_its_order_alone(
    fixture: HandlerFixture, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    worker = worker_of(fixture, provider, monkeypatch, "fresh", "one")
    result = await work(fixture, worker, contract_for(fixture, agent))
    assert kept(fixture, result, "agent_session") is None
    again = await work(fixture, worker, next_round(fixture, agent, result, None))
    assert "I begin anew" in transcript(fixture, again)
    assert "+edited = True" in transcript(fixture, again)
    assert kept(fixture, again, "codex_thread_id") != kept(fixture, result, "codex_thread_id")


@every_agent
async def test_an_unknown_session_is_replaced_by_a_fresh_one(
    fixture: HandlerFixture, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    worker = worker_of(fixture, provider, monkeypatch, "resume", "one")
    result = await work(fixture, worker, contract_for(fixture, agent))
    state = json.loads(kept(fixture, result, "agent_session") or b"")
    place = state["files"][0]["path"].rpartition("/")[0]
    state |= {"session": "00000000-0000-4000-8000-000000000000", "files": [{"path": f"{place}/none.jsonl", "text": "{}\n"}]}
    again = await work(fixture, worker, next_round(fixture, agent, result, json.dumps(state).encode()))
    assert "I begin anew" in transcript(fixture, again)
    # Qwen Code says yes to a session that it does not know, and begins an empty one.
    told = ("it may recall nothing",) if agent == "qwen-code" else ("a new one begins", "a fresh one begins")
    assert any(words in transcript(fixture, again) for words in told)
