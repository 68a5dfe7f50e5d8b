"""The smaller commands: shapes, exit codes, and what they say when there is no system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.app.cli.diagnosis import _disk
from gatewright.contracts import codec
from tests.cli.conftest import Command
from tests.factories import make_request
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    "words", [("abort", "run-0123456789"), ("submit", "request.json"), ("submit", "request.json", "--wait")]
)
def test_without_a_system_a_command_explains_how_to_start_one(
    gatewright: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "request.json").write_bytes(codec.encode(make_request()))
    said = gatewright(*words)
    assert said.exit_code == 3
    assert "gatewright up" in said.err
    assert gatewright(*words, "--json").documents[0]["error"]["code"] == "no_stack"


def test_bus_that_cannot_be_reached_is_infrastructure(gatewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_NATS_URL", "nats://u:secret@127.0.0.1:1")
    said = gatewright("runs")
    assert said.exit_code == 3
    assert "secret" not in said.err
    assert gatewright("up").exit_code == 2, "a system that runs elsewhere cannot be started here"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"neither": 1}', '{"request": ""}', '{"task_id": "x"}'])
def test_submitting_what_is_no_document_is_bad_input(gatewright: Command, content: str) -> None:
    said = gatewright("submit", "-", "--json", stdin=content)
    assert said.exit_code == 2
    assert said.documents[0]["error"]["message"]


def test_submitted_file_that_is_not_there_is_bad_input(gatewright: Command) -> None:
    assert gatewright("submit", "absent.json").exit_code == 2


def test_schema_commands(gatewright: Command) -> None:
    names = [entry["name"] for entry in gatewright("schema", "list", "--json").documents[0]["schemas"]]
    assert "task_contract.v1" in names
    assert all(gatewright("schema", "show", name, "--json").exit_code == 0 for name in names)
    assert json.loads(gatewright("schema", "show", "error.v1").out)["type"] == "object"
    assert gatewright("schema", "show", "no_such.v1").exit_code == 2


def test_topology_has_a_stable_shape(gatewright: Command) -> None:
    table = gatewright("topology", "--json").documents[0]
    assert set(table) == {"streams", "consumers", "permissions", "services", "locks"}
    assert {"gatekeeper", "worker", "publisher"} <= set(table["permissions"])
    assert "gw.run.*" in gatewright("topology").out


def test_down_where_nothing_runs_is_no_fault(gatewright: Command) -> None:
    said = gatewright("down", "--json")
    assert (said.exit_code, said.documents) == (0, [{"pid": None, "stopped": False}])


def test_environment_that_is_not_there_stops_up(gatewright: Command) -> None:
    assert gatewright("up", "--env", "absent").exit_code == 2
    assert gatewright("up", "--detach", "--env", "absent").exit_code == 2


def test_doctor_finds_this_host_fit_and_names_what_is_not(
    gatewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = gatewright("doctor", "--json").documents[0]
    names = [check["name"] for check in report["checks"]]
    assert names == ["python", "git", "nats-server", "sandbox", "policies", "home", "key", "disk", "stack", "bus", "processes"]
    monkeypatch.setenv("GATEWRIGHT_POLICIES", str(tmp_path / "absent"))
    said = gatewright("doctor")
    assert said.exit_code == 3
    assert "✘ policies" in said.out
    assert "GATEWRIGHT_POLICIES" in said.out


def test_doctor_skips_service_requirements_with_a_named_bus(gatewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_HOME", "/proc/home")  # where no file can be made

    def needed() -> dict[str, bool]:
        return {
            each["name"]: each["needed"] for each in gatewright("doctor", "--json").documents[0]["checks"] if not each["ok"]
        }

    assert needed()["disk"]
    monkeypatch.setenv("GATEWRIGHT_NATS_URL", "nats://127.0.0.1:9")
    found = needed()
    assert not found["disk"]
    assert found["bus"], "a client needs the bus"


def test_doctor_leaves_no_file_on_disk_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: seen.append(list(tmp_path.iterdir())))
    _disk(tmp_path)
    assert seen
    assert not any(seen)


def test_verify_needs_a_bundle_and_a_key(gatewright: Command, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    assert gatewright("verify", "bundle").exit_code == 2, "no key to trust"
    gatewright("init")
    said = gatewright("verify", "bundle", "--json")
    assert said.exit_code == 1
    assert {"ok", "outcome", "findings", "run_id", "signer", "checked", "unchecked"} <= set(said.documents[0])
    assert said.documents[0]["ok"] is False
    assert gatewright("verify", "bundle", "--key", "absent.pub").exit_code == 2


def test_help_loads_nothing_that_it_does_not_need() -> None:
    text = (
        "import sys\nfrom typer.testing import CliRunner\nfrom gatewright.app.cli.app import app\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        "heavy = {'nats', 'msgspec', 'git', 'jsonschema', 'structlog', 'pydantic_settings'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=PATIENCE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_defect_is_one_sentence_for_people_and_a_trace_in_a_file(tmp_path: Path) -> None:
    text = (
        "import sys\nfrom gatewright.contracts import schemas\nschemas.names = lambda: 1 / 0\n"
        "sys.argv = ['gatewright', 'schema', 'list']\nfrom gatewright.app.cli.main import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    (trace,) = tmp_path.glob("gatewright-*.trace")
    assert "ZeroDivisionError" in trace.read_text()


@pytest.mark.parametrize("words", [("watch",), ("watch", "run-0123456789abcdef0123")])
def test_watching_waits_for_a_future_run_until_its_timeout(gatewright: Command, words: tuple[str, ...]) -> None:
    said = gatewright(*words, "--timeout", "0.3")
    assert said.exit_code == 3
    assert "waiting" in said.err
    assert "[run_not_there]" in said.err
    assert said.out == ""
    (document,) = gatewright(*words, "--timeout", "0.3", "--json").documents
    assert document["error"]["code"] == "run_not_there"


@pytest.mark.parametrize("words", [("verify",), ("report", "-o", "page.html"), ("replay",), ("attach",), ("show", "--packet")])
def test_without_an_argument_the_newest_run_is_used(gatewright: Command, words: tuple[str, ...]) -> None:
    said = gatewright(*words, "--json")
    assert said.exit_code == 2
    assert said.documents[0]["error"] == {
        "code": "run_unknown",
        "message": "there are no runs yet",
        "family": "bad_input",
        "faults": [],
    }


def complete(here: Path, typed: str) -> list[str]:
    """What bash would be offered for the last word of a command line."""
    words = typed.split(" ")
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CEILING_DIRECTORIES": os.environ["GIT_CEILING_DIRECTORIES"],
        "_GATEWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    program = "import sys; sys.argv[0] = 'gatewright'; from gatewright.app.cli.main import main; main()"
    argv = (sys.executable, "-P", "-c", program)
    return subprocess.run(argv, cwd=here, env=environment, capture_output=True, text=True, check=False).stdout.split()


@pytest.mark.long
def test_the_shell_completes_commands_options_and_run_ids(tmp_path: Path) -> None:
    for run_id in ("run-0123456789abcdef0123", "run-1123456789abcdef0123"):
        (tmp_path / ".gatewright" / "runs" / run_id).mkdir(parents=True)
    assert complete(tmp_path, "gatewright ver") == ["verify", "verify-commit"]
    assert "--allow-tests" in complete(tmp_path, "gatewright run --allow-")
    assert complete(tmp_path, "gatewright verify run-0") == ["run-0123456789abcdef0123"]
    assert len(complete(tmp_path, "gatewright hold ")) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_completion_can_be_had_for_every_shell(gatewright: Command, shell: str) -> None:
    assert "_GATEWRIGHT_COMPLETE" in gatewright("completion", shell).out
    (document,) = gatewright("completion", shell, "--json").documents
    assert document["shell"] == shell
