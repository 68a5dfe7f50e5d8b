"""``run --agent``, ``agents list`` and ``agents login-check``: what is missing is said before anything is started."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gatewright.agents.installation import SETTING
from gatewright.app.cli.run.request import prepare
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions
from gatewright.order_form.words import command_line
from tests.cli.conftest import MakeRepository
from tests.command_line import invoke_in

CODEX = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"


def options(repository: Path, **changes: object) -> RunOptions:
    given = {"request": "do it", "repo": str(repository), "allow": ("a.txt",), "tests": ("true",), **changes}
    return RunOptions(**given)  # type: ignore[arg-type]  # valid ones


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A folder that looks as if Codex were installed in it."""
    folder = tmp_path / "agents"
    program, package = folder / CODEX, folder / "node_modules/@openai/codex/package.json"
    for file in (program, package):
        file.parent.mkdir(parents=True)
    program.write_text("")
    package.write_text('{"version": "0.169.0"}')
    return folder


def faults(repository: Path, **changes: object) -> dict[str, str]:
    with pytest.raises(MalformedError) as caught:
        prepare(options(repository, **changes), repository, on_this_host=True)
    return {fault.code: fault.message for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("changes", "executor"),
    [
        ({"agent": "codex"}, Executor(kind="agent", agent="codex")),
        ({"agent": "any", "model": "m"}, Executor(kind="agent", model="m")),
        ({"model": "m"}, Executor(kind="model", model="m")),
        ({"model": "m", "fallback": True}, Executor(kind="model", model="m", fallback=True)),
        ({"agent": "codex", "model": "m", "fallback": True}, Executor(kind="agent", agent="codex", model="m", fallback=True)),
    ],
)
def test_an_agent_or_a_model_is_asked_for_three_times_at_most(
    make_repository: MakeRepository, changes: dict[str, str], executor: Executor
) -> None:
    request = prepare(options(make_repository("project"), **changes), Path("/")).request
    assert request.executor == executor
    assert request.timeout_retry is not None
    assert request.timeout_retry.max_retries == 2


def test_one_way_to_make_the_change_is_enough(make_repository: MakeRepository) -> None:
    assert "ambiguous" in faults(make_repository("project"), model="m", commands=("ruff format a.txt",))


def test_a_fallback_without_a_model_is_refused(make_repository: MakeRepository) -> None:
    found = faults(make_repository("project"), agent="codex", fallback=True)
    assert "--model" in found["missing"]


def test_a_missing_agent_is_reported_with_the_next_step(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    found = faults(make_repository("project"), agent="codex")
    assert "npm install" in found["agent_not_installed"]
    assert SETTING in found["agent_not_installed"]


def test_an_agent_of_a_version_that_was_not_tried_is_not_used(
    make_repository: MakeRepository, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installation / "node_modules/@openai/codex/package.json").write_text('{"version": "9.0.0"}')
    monkeypatch.setenv(SETTING, str(installation))
    assert "9.0.0" in faults(make_repository("project"), agent="codex")["agent_not_installed"]


def test_a_missing_key_is_reported_without_a_value(
    make_repository: MakeRepository, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, str(installation))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in faults(make_repository("project"), agent="codex")["model_key_missing"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    prepared = prepare(options(make_repository("other"), agent="codex"), Path("/"), on_this_host=True)
    assert "sk-0123456789" not in repr(prepared)


def test_what_was_asked_can_be_typed_again(make_repository: MakeRepository) -> None:
    words = command_line(options(make_repository("project"), agent="codex", model="m"))
    assert words[words.index("--agent") + 1] == "codex"
    assert words[words.index("--model") + 1] == "m"


def test_the_list_shows_installed_and_admitted_agents(tmp_path: Path, installation: Path) -> None:
    said = invoke_in(tmp_path, {"PATH": "/usr/bin:/bin", SETTING: str(installation)}, ("agents", "list", "--json"))
    rows = {row["name"]: row for row in json.loads(said.stdout)["agents"]}
    assert (rows["codex"]["version"], rows["codex"]["usable"], rows["claude"]["usable"]) == ("0.169.0", True, False)
    assert (rows["codex"]["admitted"], rows["claude"]["admitted"]) == (None, None)
    words = invoke_in(tmp_path, {"PATH": "/usr/bin:/bin", SETTING: str(installation)}, ("agents", "list")).stdout
    assert "`gatewright agents probe codex` first" in words
    columns = {found.end() for line in words.splitlines() if (found := re.match(r"[✘·] \S+ +", line))}
    assert len(columns) == 1


def test_the_login_check_fails_without_a_key_and_sends_nothing_offline(tmp_path: Path, installation: Path) -> None:
    around = {"PATH": "/usr/bin:/bin", SETTING: str(installation)}
    assert invoke_in(tmp_path, around, ("agents", "login-check", "codex")).returncode == 3
    good = {**around, "OPENAI_API_KEY": "sk-0123456789"}
    assert invoke_in(tmp_path, good, ("agents", "login-check", "codex", "--offline")).returncode == 0


def test_any_agent_is_one_whose_key_is_there(
    make_repository: MakeRepository, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, text in (("bin/claude.exe", ""), ("package.json", '{"version": "2.1.0"}')):
        place = installation / "node_modules/@anthropic-ai/claude-code" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    monkeypatch.setenv(SETTING, str(installation))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    found = faults(make_repository("project"), agent="any")
    assert list(found) == ["model_key_missing"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789")
    prepare(options(make_repository("other"), agent="any"), Path("/"), on_this_host=True)


def test_questions_are_answered_only_where_an_agent_asks_them(make_repository: MakeRepository) -> None:
    assert "give --agent NAME" in faults(make_repository("project"), model="m", interactive=True)["invalid"]
    asked = options(make_repository("other"), agent="codex", interactive=True)
    assert prepare(asked, Path("/")).request.interactive
    assert "--interactive" in command_line(asked)
