"""Real coding agents in a terminal as hosts: a scripted model has them order a governed change by ``gatewright mcp``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.installation import find_agent
from gatewright.agents.policy import load_agents
from gatewright.resources import policy_directory
from tests.agents.conftest import INSTALLATION, AgentStack
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import ScriptedProvider
from tests.models.turns import Call, Say, Turn

MODEL = "host"
#: How both agents name the server that their configuration calls ``gatewright``.
SERVER = "mcp__gatewright"
#: Calls after which the model gives up.
MOST_CALLS = 5
_RUN = re.compile(r"run-[0-9a-f]{20}")
SUBMITTED: Mapping[str, Any] = {
    "request": "edit all",
    "paths": ["src"],
    "tests": ["python tools/check.py 0"],
    "fields": {
        "executor": {"kind": "command", "commands": ["python tools/edit.py 0 {paths}"]},
        "environment": {"prefix": str(PREFIX)},
    },
}


class Person:
    """The model of a host: it orders a change, waits for its end, has it verified, and says how it went.

    ``offered``: the tools of ours; ``answers``: what they have told.
    """

    def __init__(self) -> None:
        self.offered: set[str] = set()
        self.answers = ""

    def __call__(self, body: dict[str, Any]) -> Turn:
        tools = dict(_tools(body))
        self.offered |= tools.keys()
        outputs = _outputs(body)
        self.answers = told = json.dumps(outputs)
        runs = _RUN.findall(told)
        if not tools and (waiting := _wait_for_servers(body)) is not None:
            return waiting
        if _has_verified(told):
            return Say(f"It landed: {runs[0]}")
        if not tools or len(outputs) > MOST_CALLS:
            return Say(f"I give up: {told[-2000:]}")
        if "SUCCESS" in told:
            return _call(tools["verify_run"], {"run_id": runs[0]})
        if runs:
            return _call(tools["wait_for_run"], {"run_id": runs[0], "seconds": 50})
        return _call(tools["submit_run"], SUBMITTED)


def _has_verified(told: str) -> bool:
    """Whether `verify_run` says that a bundle holds, however often its answer was quoted on its way."""
    return "ok:true,outcome:ok" in told.translate({ord(each): None for each in '\\" '})


#: What a host tries that was taken over: tool, arguments, and what each answer has to hold.
ATTEMPTS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("read_file", {"path": "../../../../etc/passwd"}, "invalid_input"),
    ("read_file", {"path": "/etc/passwd"}, "invalid_input"),
    ("read_file", {"path": ".git/config"}, "invalid_input"),
    ("read_file", {"path": "x" * 100_000}, "string should have at most"),
    ("run_status", {"run_id": "../../../etc"}, "run_unknown"),
    ("read_bundle_file", {"run_id": "run-00000000000000000000", "path": "../../key.pem"}, "run_unknown"),
    ("submit_run", {**SUBMITTED, "request": "x" * 100_000}, "string should have at most"),
    ("submit_run", {**SUBMITTED, "approve": True}, "invalid_input"),
    ("approve", {"request_id": "run-00000000000000000000.ask.1", "verdict": "approve"}, "approve"),
)


class Attacker:
    """The model of a host that means harm: one attempt after another. ``answers``: what each was told.

    It counts by itself: of answers that are long an agent may keep none.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self._tried = 0

    def __call__(self, body: dict[str, Any]) -> Turn:
        tools = dict(_tools(body))
        if not tools:  # else the agent sums up what it has
            return _wait_for_servers(body) or Say("so far nothing was reached")
        if self._tried > len(self.answers):
            self.answers.append(json.dumps(_outputs(body)[-1:]))
        if self._tried == len(ATTEMPTS):
            return Say("I have tried it all")
        name, arguments, _ = ATTEMPTS[self._tried]
        self._tried += 1
        group, known = tools["read_file"]
        return _call(tools.get(name, (group, known.replace("read_file", name))), arguments)


def _tools(body: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Gatewright's tools by their own names: group and name by which the agent offers them."""
    for tool in body.get("tools") or []:
        if tool.get("name") == SERVER:
            yield from ((each["name"], (SERVER, each["name"])) for each in tool["tools"])
        elif (name := str(tool.get("name", ""))).startswith(f"{SERVER}__"):
            yield name.removeprefix(f"{SERVER}__"), ("", name)


def _wait_for_servers(body: dict[str, Any]) -> Call | None:
    """Claude Code begins while servers are still started, and offers its model to wait for them; None where it does not."""
    known = any(tool.get("name") == "WaitForMcpServers" for tool in body.get("tools") or [])
    return Call("WaitForMcpServers", {}) if known and len(_outputs(body)) <= MOST_CALLS else None


def _call(tool: tuple[str, str], arguments: Mapping[str, Any]) -> Call:
    return Call(tool[1], arguments, namespace=tool[0])


def _outputs(body: dict[str, Any]) -> list[Any]:
    """What tools have answered, in either API."""
    items = [each.get("output") for each in body.get("input", []) if isinstance(each, dict) and "output" in each]
    for message in body.get("messages", []):
        content = message.get("content")
        items += [part for part in content if part.get("type") == "tool_result"] if isinstance(content, list) else []
    return items


@contextlib.contextmanager
def _played(provider: ScriptedProvider, script: Person | Attacker) -> Iterator[None]:
    scripts = dict(provider.scripts)
    provider.scripts = {**scripts, MODEL: script}
    try:
        yield
    finally:
        provider.scripts = scripts


def _server(project: Path) -> list[str]:
    return ["-m", "gatewright.app.cli.main", "mcp", "--repo", str(project)]


def _codex(program: str, home: Path, project: Path, base_url: str, environment: Mapping[str, str]) -> list[str]:
    text = json.dumps
    server = "[mcp_servers.gatewright]\n" + f"command = {text(sys.executable)}\nargs = {text(_server(project))}\n"
    server += "required = true\nstartup_timeout_sec = 120\ntool_timeout_sec = 120\n[mcp_servers.gatewright.env]\n"
    server += "".join(f"{name} = {text(value)}\n" for name, value in environment.items())
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        f'model = "{MODEL}"\nmodel_provider = "scripted"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        "check_for_update_on_startup = false\n[analytics]\nenabled = false\n[model_providers.scripted]\n"
        f'name = "scripted"\nbase_url = "{base_url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n{server}'
    )
    return [program, "exec", "--json", "--skip-git-repo-check", "-C", str(project), "Edit all files, governed."]


def _claude(program: str, home: Path, project: Path, base_url: str, environment: Mapping[str, str]) -> list[str]:
    del base_url
    server = {"command": sys.executable, "args": _server(project), "env": dict(environment)}
    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"gatewright": server}}))
    words = ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", "mcp__gatewright"]
    words += ["--output-format", "stream-json", "--verbose", "--setting-sources", "", "--model", MODEL]
    return [program, "-p", "Edit all files, governed.", *words]


HOSTS: Mapping[str, Callable[..., list[str]]] = {"codex": _codex, "claude": _claude}


def _hosted(
    agents: AgentStack, provider: ScriptedProvider, project: Path, folder: Path, agent: str
) -> subprocess.CompletedProcess[str]:
    """The agent as a host of ours, to its end."""
    found = find_agent(load_agents(policy_directory()).agent(agent), (INSTALLATION,))
    assert found is not None
    home = folder / "home of the host"
    home.mkdir()
    command = HOSTS[agent](found.argv[0], home, project, provider.root, agents.environment)
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SCRIPTED_KEY": "of-the-host",
        "ANTHROPIC_API_KEY": "of-the-host",
        "ANTHROPIC_BASE_URL": provider.root,
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    ended = subprocess.run(
        command,
        cwd=project,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


@pytest.mark.parametrize("agent", HOSTS)
def test_a_coding_agent_orders_lands_and_verifies_a_change(
    agents: AgentStack, provider: ScriptedProvider, make_repository: MakeRepository, tmp_path: Path, agent: str
) -> None:
    project, person = make_repository("project", files=FILES).path, Person()
    with _played(provider, person):
        ended = _hosted(agents, provider, project, tmp_path, agent)
    said = next((line for line in ended.stdout.splitlines() if "It landed: " in line), "")
    assert said, ended.stdout[-4000:]
    (run_id,) = set(_RUN.findall(said))
    assert {"submit_run", "wait_for_run", "verify_run", "list_approvals"} <= person.offered
    assert [name for name in person.offered if name.startswith(("approve", "reject", "decide"))] == []
    assert _has_verified(person.answers)
    verified = agents.process("verify", run_id, "--json")
    assert verified.returncode == 0, verified.stdout
    repository = Repository(project, project.parent / "home")
    assert repository.git("show", f"gatewright/{run_id}:src/a.py").endswith(b"edited = True\n")


@pytest.mark.parametrize("agent", HOSTS)
def test_a_hostile_host_is_refused_each_time_and_begins_nothing(
    agents: AgentStack, provider: ScriptedProvider, make_repository: MakeRepository, tmp_path: Path, agent: str
) -> None:
    project, attacker = make_repository("project", files=FILES).path, Attacker()
    before = agents.process("runs", "--json").stdout
    with _played(provider, attacker):
        _hosted(agents, provider, project, tmp_path, agent)
    assert len(attacker.answers) == len(ATTEMPTS)
    for (name, _, expected), told in zip(ATTEMPTS, attacker.answers, strict=True):
        assert expected in told, name
        assert "root:" not in told
        assert "[core]" not in told
    assert agents.process("runs", "--json").stdout == before
    assert agents.process("approvals", "list", "--json").returncode == 0
