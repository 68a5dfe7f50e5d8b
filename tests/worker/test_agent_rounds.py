"""An agent in a further round: what it begins with, whose session it goes on with, and what of that is believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.agents.policy import load_agents
from gatewright.contracts import TaskContract, TaskResult, TestReport, codec
from gatewright.contracts.vocabulary import Agent, Executor
from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture
from tests.worker.agents.admissions import admit_all, write_silent_model

PROGRAM = Path(__file__).parent / "agents" / "acp_program.py"
EDIT = "sh:echo 'y = 2' >> src/a.py"
ONCE = "sh:grep -q 'y = 2' src/a.py && echo 'z = 3' >> src/b.py || echo 'y = 2' >> src/a.py"
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


def worker_with(
    fixture: HandlerFixture,
    tmp_path: Path,
    words: Sequence[str],
    policy: Mapping[str, object] | None = None,
    **entry: object,
) -> WorkerHandler:
    """A worker whose one agent is the scripted program, with these words; ``policy`` are more fields of ``agents.json``."""
    installation, policies = tmp_path / "installation", tmp_path / "policies"
    installation.mkdir(exist_ok=True)
    shutil.copy(PROGRAM, installation / "program.py")
    (installation / "program.py").chmod(0o755)
    (installation / "package.json").write_text('{"version": "1.0.0"}')
    shutil.copytree(policy_directory(), policies, dirs_exist_ok=True)
    agent: dict[str, Any] = {"name": "program", "protocol": "acp", "program": ["program.py"], "package": "package.json"}
    agent |= {"versions": {"since": "1", "before": "2"}, "api": "chat_completions", "arguments": list(words), **entry}
    (policies / "agents.json").write_text(
        json.dumps({"version": "1", "masked": [".claude"], "agents": [agent], **(policy or {})})
    )
    write_silent_model(policies)
    admit_all(fixture.state, policies, installation)
    return make_handler(Settings(home=fixture.state, policies=policies, agent_installations=(installation,)))


def resuming(fixture: HandlerFixture, tmp_path: Path, *words: str) -> WorkerHandler:
    return worker_with(fixture, tmp_path, ("recall", *words), rounds="resume", session_files=[".program/sessions"])


def first(fixture: HandlerFixture) -> TaskContract:
    return fixture.contract(executor=Executor(kind="agent", agent="program"), allowed_paths=("src",))


def second(fixture: HandlerFixture, result: TaskResult, **changed: bytes) -> TaskContract:
    """The contract of the round after ``result``; ``changed`` are other bytes of what it left."""
    held = [fixture.artifacts.hold("failed.test_report.a1", codec.encode(REPORT))]
    left = {"patch": fixture.artifacts.stored[result.git.patch], **changed}
    if (session := kept(fixture, result, "agent_session")) and "session" not in changed:
        left["session"] = session
    held += [fixture.artifacts.hold(f"failed.{name}.a1", data) for name, data in left.items()]
    contract = first(fixture)
    return replace(contract, attempt=2, inputs=replace(contract.inputs, artifacts=tuple(held)))


def kept(fixture: HandlerFixture, result: TaskResult, name: str) -> bytes:
    found = (artifact for artifact in result.artifacts if artifact.name == name)
    return next((fixture.artifacts.stored[artifact.uri] for artifact in found), b"")


def said(fixture: HandlerFixture, result: TaskResult) -> str:
    return kept(fixture, result, "codex_transcript").decode()


async def work(fixture: HandlerFixture, worker: WorkerHandler, contract: TaskContract) -> TaskResult:
    result = await worker.handle(contract, fixture.context())
    assert (result.status, result.failure) == ("SUCCESS", None)
    return result


async def test_a_fresh_session_receives_the_refused_change_and_its_patch(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = worker_with(fixture, tmp_path, [ONCE])
    result = await work(fixture, worker, first(fixture))
    again = await work(fixture, worker, second(fixture, result))
    _, patch = await fixture.changed({"src/a.py": b"x = 1\ny = 2\n", "src/b.py": b"y = 1\nz = 3\n"})
    assert fixture.artifacts.stored[again.git.patch] == patch
    prompt = kept(fixture, again, "codex_prompt").decode()
    assert "+y = 2" in prompt
    assert "The previous change was refused. Make the acceptance tests pass." in prompt
    assert kept(fixture, result, "agent_session") == b""


async def test_a_round_that_changes_nothing_of_the_refused_change_is_no_change(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = worker_with(fixture, tmp_path, ["sh:grep -q 'y = 2' src/a.py || echo 'y = 2' >> src/a.py"])
    result = await work(fixture, worker, first(fixture))
    again = await worker.handle(second(fixture, result), fixture.context())
    assert (again.failure or "").partition(":")[0] == "no_change"


async def test_a_round_that_takes_the_refused_change_back_is_no_change(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = worker_with(
        fixture, tmp_path, ["sh:if grep -q y src/a.py; then echo 'x = 1' > src/a.py; else echo y >> src/a.py; fi"]
    )
    result = await work(fixture, worker, first(fixture))
    again = await worker.handle(second(fixture, result), fixture.context())
    assert (again.failure or "").partition(":")[0] == "no_change"


async def test_a_session_is_resumed_by_another_worker(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await work(fixture, resuming(fixture, tmp_path, ONCE), first(fixture))
    assert "I recall 1 order(s)" in said(fixture, result)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    other = resuming(replace_state(fixture, tmp_path / "elsewhere" / "state"), tmp_path, ONCE)
    again = await work(fixture, other, second(fixture, result))
    assert "I recall 2 order(s)" in said(fixture, again)
    assert "problem" not in said(fixture, again)


async def test_a_resumed_agent_without_replay_may_have_no_memory(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = resuming(fixture, tmp_path, ONCE, "mute")
    again = await work(fixture, worker, second(fixture, await work(fixture, worker, first(fixture))))
    assert "it may remember nothing" in said(fixture, again)


async def test_a_banner_on_standard_output_does_not_end_a_run(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await work(fixture, worker_with(fixture, tmp_path, ["raw:Welcome!", EDIT]), first(fixture))
    assert "no message was passed over: Welcome!" in said(fixture, result)


@pytest.mark.parametrize(
    ("words", "how"),
    [(["exit"], "ended normally, exit 0"), (["sh:kill -SEGV $PPID"], "crashed, signal 11"), (["exit:3"], "failed, exit 3")],
)
async def test_a_crash_is_distinguished_from_a_clean_exit(
    fixture: HandlerFixture, tmp_path: Path, words: list[str], how: str
) -> None:
    result = await worker_with(fixture, tmp_path, words).handle(first(fixture), fixture.context())
    assert (result.failure or "").startswith("agent_failed")
    assert how in (result.failure or "")


def replace_state(fixture: HandlerFixture, state: Path) -> HandlerFixture:
    return HandlerFixture(fixture.repository, fixture.baseline, fixture.mirrors, state, fixture.artifacts)


def _state(**files: str) -> dict[str, Any]:
    return {
        "version": "1",
        "agent": "program",
        "agent_version": "1.0.0",
        "session": "s",
        "files": [{"path": path, "text": text} for path, text in files.items()],
    }


GOOD = _state(**{".program/sessions/s.jsonl": '"earlier"\n'})


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({**GOOD, "agent": "another"}, "it is of another 1.0.0"),
        ({**GOOD, "agent_version": "0.9"}, "and here is program 1.0.0"),
        ({**GOOD, "session": ""}, "its id is none"),
        ({**GOOD, "session": "--help"}, "its id is none"),
        ({**GOOD, "more": 1}, "no state of a session"),
        (_state(**{".program/sessions/../../.bashrc": "x"}), "lies where no session is kept"),
        (_state(**{"/etc/passwd": "x"}), "lies where no session is kept"),
        (_state(**{".program/settings.json": "x"}), "lies where no session is kept"),
        (_state(**{".program/sessions/s": "x", ".program/sessions/s/t": "x"}), "the folder of another"),
        (_state(**{f".program/sessions/{number}": "x" for number in range(65)}), "too large"),
        (_state(**{".program/sessions/s.jsonl": "x" * (9 << 20)}), "too large"),
        ([1], "no state of a session"),
    ],
)
async def test_an_altered_state_begins_a_fresh_session_and_is_reported(
    fixture: HandlerFixture, tmp_path: Path, state: object, why: str
) -> None:
    worker = resuming(fixture, tmp_path, ONCE)
    result = await work(fixture, worker, first(fixture))
    again = await work(fixture, worker, second(fixture, result, session=msgspec.json.encode(state)))
    assert "I recall 1 order(s)" in said(fixture, again)
    assert "cannot be resumed, a fresh one begins" in said(fixture, again)
    assert why in said(fixture, again)


async def test_a_missing_state_begins_a_fresh_session_and_is_reported(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = resuming(fixture, tmp_path, ONCE)
    contract = second(fixture, await work(fixture, worker, first(fixture)))
    gone = next(artifact for artifact in contract.inputs.artifacts if artifact.name == "failed.session.a1")
    del fixture.artifacts.stored[gone.uri]
    again = await work(fixture, worker, contract)
    assert "I recall 1 order(s)" in said(fixture, again)
    assert "cannot be resumed, a fresh one begins" in said(fixture, again)


async def test_an_agent_that_leaves_while_resuming_is_restarted_once(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = resuming(fixture, tmp_path, ONCE, "forget")
    result = await work(fixture, worker, first(fixture))
    again = await work(fixture, worker, second(fixture, result))
    assert "I recall 1 order(s)" in said(fixture, again)
    assert "cannot be resumed, a fresh one begins" in said(fixture, again)


HOME = "$HOME/.program/sessions"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"ln -s /etc/passwd {HOME}/link", "it holds a link"),
        (f"ln -s / {HOME}/root", "it holds a link"),
        (f"mkfifo {HOME}/pipe", "it holds a link"),
        (f"head -c 9000000 /dev/zero > {HOME}/large", "more than 64 files or"),
        (f"for n in $(seq 70); do echo x > {HOME}/$n; done", "more than 64 files or"),
        (f"mkdir -p {HOME}/1/2/3/4/5/6/7/8/9/10/11/12/13", "too deep"),
        (f"printf 'token ghp_%s' 0123456789abcdefghijABCDEFGHIJ012345 > {HOME}/s.jsonl", "looks like a secret"),
        (f"rm -rf {HOME}/*", "the agent left none"),
    ],
)
async def test_a_hostile_state_is_not_kept_and_the_change_is(
    fixture: HandlerFixture, tmp_path: Path, command: str, why: str
) -> None:
    result = await work(fixture, resuming(fixture, tmp_path, EDIT, f"sh:{command}"), first(fixture))
    assert kept(fixture, result, "agent_session") == b""
    assert "the session is not kept for a further round" in said(fixture, result)
    assert why in said(fixture, result)
    assert result.git.patch


async def test_nothing_but_the_session_outlives_the_home(fixture: HandlerFixture, tmp_path: Path) -> None:
    plant = "sh:mkdir -p $HOME/.program/hooks; echo evil > $HOME/.program/hooks/start; echo evil > $HOME/.profile"
    worker = resuming(fixture, tmp_path, ONCE, plant, "sh:cat $HOME/.profile $HOME/.program/hooks/start >&2")
    result = await work(fixture, worker, first(fixture))
    state: Mapping[str, Any] = json.loads(kept(fixture, result, "agent_session"))
    assert [file["path"] for file in state["files"]] == [".program/sessions/s.jsonl"]


def paths_kept(fixture: HandlerFixture, result: TaskResult) -> list[str]:
    return [file["path"] for file in json.loads(kept(fixture, result, "agent_session"))["files"]]


async def test_the_worker_waits_while_an_agent_writes_its_session(fixture: HandlerFixture, tmp_path: Path) -> None:
    late = f"sh:(for n in 1 2 3 4; do sleep 0.1; echo $n >> {HOME}/late; done) >/dev/null 2>&1 &"
    result = await work(fixture, resuming(fixture, tmp_path, ONCE, late), first(fixture))
    state: Mapping[str, Any] = json.loads(kept(fixture, result, "agent_session"))
    assert {file["path"]: file["text"] for file in state["files"]}[".program/sessions/late"] == "1\n2\n3\n4\n"


async def test_session_files_get_names_that_the_agent_does_not_overwrite(fixture: HandlerFixture, tmp_path: Path) -> None:
    """Gemini CLI names a session's file by the minute, and empties the one that it is to go on with."""
    places: dict[str, Any] = {"session_files": [".program/sessions"], "session_renames": {"s": "since-s"}}
    worker = worker_with(fixture, tmp_path, ("recall", ONCE), rounds="resume", **places)
    result = await work(fixture, worker, first(fixture))
    assert paths_kept(fixture, result) == [".program/sessions/s.jsonl"]
    for _ in range(2):
        result = await work(fixture, worker, second(fixture, result))
        assert sorted(paths_kept(fixture, result)) == [".program/sessions/s.jsonl", ".program/sessions/since-s.jsonl"]


@pytest.mark.parametrize("renames", [{"../s": "s"}, {"s": "a/s"}, {"s": ""}, {"": "s"}, {"s": 1}])
def test_a_name_of_a_session_s_file_stays_a_name(fixture: HandlerFixture, tmp_path: Path, renames: dict[str, Any]) -> None:
    places: dict[str, Any] = {"session_files": [".program/sessions"], "session_renames": renames}
    with pytest.raises(ConfigurationError, match="session_renames"):
        worker_with(fixture, tmp_path, ("recall",), rounds="resume", **places)


def test_an_entry_that_resumes_names_where_its_session_lies(fixture: HandlerFixture, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="session_files"):
        worker_with(fixture, tmp_path, [], rounds="resume")


def test_an_unknown_protocol_version_is_refused_by_name(fixture: HandlerFixture, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="program wants version 3 of its protocol; there is 1") as caught:
        worker_with(fixture, tmp_path, [], protocol_version=3)
    assert caught.value.reason == "protocol_version_unknown"


def test_a_protocol_draft_is_refused_until_the_policy_names_it(tmp_path: Path) -> None:
    agent = {"name": "program", "protocol": "acp", "program": ["p"], "package": "p.json", "protocol_version": 2}
    agent |= {"versions": {"since": "1", "before": "2"}}
    policy: dict[str, Any] = {"version": "1", "masked": [], "agents": [agent]}
    (tmp_path / "agents.json").write_text(json.dumps(policy))
    with pytest.raises(ConfigurationError, match="which is a draft") as caught:
        load_agents(tmp_path)
    assert caught.value.reason == "protocol_version_unknown"
    (tmp_path / "agents.json").write_text(json.dumps({**policy, "drafts": ["acp-2"]}))
    assert load_agents(tmp_path).agents[0].protocol_version == 2
    codex = {**agent, "protocol": "codex-app-server"}
    (tmp_path / "agents.json").write_text(json.dumps({**policy, "agents": [codex], "drafts": ["acp-2"]}))
    with pytest.raises(ConfigurationError, match="there is 1"):
        load_agents(tmp_path)
