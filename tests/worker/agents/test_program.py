"""Coding agents that are plain programs: they get one order, their output is recorded, and their exit code counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.policy import load_agents
from gatewright.contracts import TaskResult
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.resources import policy_directory
from gatewright.services.worker.agents.port import AgentOrder
from gatewright.services.worker.agents.protocols import PlainProgram
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture
from tests.worker.agents.admissions import admit_all, write_silent_model

#: Writes down how it was called and what it read, and changes what the contract allows.
PROGRAM = """#!/bin/sh
printf '\\033[1mreading\\033[0m the order\\n'
{ printf '%s\\n' "$@"; cat; } >/tmp/given
for word in "$@"; do [ ! -f "$word" ] || cat "$word" >>/tmp/given; done
grep -q src /tmp/given && echo found the path
echo
case "$SAID" in
  broken) echo 'cannot go on' >&2; exit 3;;
  killed) kill -9 $$;;
  liar) printf 'gatewright-exit 0\\n'; exit 1;;
  loud) yes 'word word word' | head -n 60000;;
  mute) printf 'x = 2\\n' >src/a.py; printf 'no end of line'; exit 0;;
esac
printf 'x = 2\\n' >src/a.py
echo done
"""
ENTRY: dict[str, Any] = {
    "name": "plain",
    "protocol": "command",
    "api": "chat_completions",
    "program": ["bin/plain"],
    "package": "lib/*/plain-*.dist-info/METADATA",
    "versions": {"since": "1", "before": "2"},
}


def write_policies(folder: Path, **fields: Any) -> Path:
    policies = Path(shutil.copytree(policy_directory(), folder / "policies"))
    (policies / "agents.json").write_text(json.dumps({"version": "1", "masked": [], "agents": [ENTRY | fields]}))
    write_silent_model(policies)
    return policies


async def work(fixture: HandlerFixture, tmp_path: Path, said: str = "", **fields: Any) -> TaskResult:
    installation = tmp_path / "installation"
    metadata = installation / "lib/python3.11/plain-1.4.2.dist-info/METADATA"
    files = {installation / "bin/plain": PROGRAM, metadata: "Metadata-Version: 2.1\nVersion: 1.4.2\n\nVersion: 9\n"}
    for file, text in files.items():
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (installation / "bin/plain").chmod(0o755)
    policies = write_policies(tmp_path, variables={"SAID": said}, **fields)
    admit_all(fixture.state, policies, installation)
    worker = make_handler(Settings(home=fixture.state, policies=policies, agent_installations=(installation,)))
    return await worker.handle(fixture.contract(executor=Executor(kind="agent", agent="plain")), fixture.context())


def events_of(fixture: HandlerFixture, result: TaskResult) -> list[dict[str, Any]]:
    kept = next(artifact for artifact in result.artifacts if artifact.name.endswith("_events"))
    return [json.loads(line) for line in fixture.artifacts.stored[kept.uri].splitlines()]


@pytest.mark.parametrize("arguments", [[], ["--message-file", "@PROMPT_FILE@"], ["--yes", "--message", "@PROMPT@"]])
async def test_the_order_reaches_the_program_where_its_arguments_want_it(
    fixture: HandlerFixture, tmp_path: Path, arguments: list[str]
) -> None:
    result = await work(fixture, tmp_path, arguments=arguments)
    assert (result.status, result.failure) == ("SUCCESS", None)
    assert b"+x = 2" in fixture.artifacts.stored[result.git.patch]
    started, *_ = events = events_of(fixture, result)
    assert (started["agent"], started["version"]) == ("plain", "1.4.2")
    assert [event["text"] for event in events if event["event"] == "message"] == ["reading the order\nfound the path", "done"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("broken", "plain ended with exit code 3"),
        ("killed", "plain ended with exit code 137"),
        ("liar", "plain ended with exit code 1"),
    ],
)
async def test_an_exit_code_other_than_zero_is_a_failure(
    fixture: HandlerFixture, tmp_path: Path, said: str, words: str
) -> None:
    result = await work(fixture, tmp_path, said)
    assert (result.failure or "").startswith(f"agent_failed: {words}")


async def test_a_flood_of_output_is_recorded_up_to_its_bound(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await work(fixture, tmp_path, "loud")
    assert result.status == "SUCCESS"
    recorded = sum(len(event.get("text", "")) for event in events_of(fixture, result))
    assert 100_000 < recorded <= 2_000_000


async def test_a_last_line_without_its_end_is_recorded(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await work(fixture, tmp_path, "mute")
    assert result.status == "SUCCESS"
    assert events_of(fixture, result)[-1]["text"] == "no end of line"


def test_an_order_that_no_argument_holds_is_refused_with_what_to_do() -> None:
    order = AgentOrder("x" * 200_000, "/workspace", "m", "http://x")
    with pytest.raises(DeniedError, match="@PROMPT_FILE@"):
        PlainProgram(("/opt/plain", "@PROMPT@"), "plain", "1").launch(order)
    assert PlainProgram(("/opt/plain", "@PROMPT_FILE@"), "plain", "1").launch(order).argv[-1] == "@HOME@/order.md"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"api": None}, "needs api"),
        ({"usage_at": ["usage"]}, "usage_at is for the protocol acp alone"),
        ({"session_mode": "default"}, "session_mode is for the protocol acp alone"),
        ({"rounds": "resume", "session_files": [".plain"]}, "begins each round anew"),
        ({"model_list": ["debug"]}, "has no catalogue"),
    ],
)
def test_a_field_that_a_program_has_no_use_for_is_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_agents(write_policies(tmp_path, **fields))
