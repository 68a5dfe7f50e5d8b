"""What a user sees who is new here: failures that explain themselves, commits that exist, and runs that are to come."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.identities import OPERATOR_PUBLISHER
from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.run.state import run_id_of
from gatewright.sandbox.system import PATH
from tests.command_line import invoke_in
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, Stack, slow_request
from tests.git.repositories import Repository
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"
FAILING = b"""import sys
print("\\n".join(f"line {number}" for number in range(500)))
print("\\x1b]0;owned\\x07E   assert 1 == 2")
print("1 failed in 0.1s")
sys.exit(1)
"""
WRITES_A_TEST = b"""import pathlib
pathlib.Path("tests").mkdir(exist_ok=True)
pathlib.Path("tests/test_x y.py").write_text("def test(): pass\\n")
"""


def run(stack: Stack, project: Path, *words: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    """`gatewright run ...` for people: exit code, what it said, and what it said beside it."""
    environment = stack.environment | {"PATH": "/usr/bin:/bin"}
    done = invoke_in(project, environment, ("run", *words, "--env", str(PREFIX)), stdin)
    return done.returncode, done.stdout, done.stderr


def test_a_failed_test_shows_its_last_lines_and_show_log_the_rest(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__failing=FAILING)
    code, out, _ = run(stack, project, "x", "--allow", "src", "--exec", EDIT, "--test", "python tools/failing.py")
    assert code == 1
    assert "  output    test-1: python tools/failing.py (exit 1), stdout" in out
    assert "  │ \\x1b]0;owned\\x07E   assert 1 == 2" in out
    assert "  │ 1 failed in 0.1s" in out
    assert "  │ line 499" in out
    assert "line 3\n" not in out, "the beginning is cut"
    assert "\x1b" not in out
    run_id = out.rpartition("gatewright show ")[2].split()[0]
    log = stack.command("show", run_id, "--log").stdout
    assert "line 3\n" in log
    assert "\x1b" not in log
    assert "  │ 1 failed in 0.1s" in stack.command("show", run_id).stdout
    document = json.loads(stack.command("show", run_id, "--log", "--json").stdout)
    assert any("line 3\n" in entry["text"] for entry in document["log"])


def test_the_command_that_a_refusal_prints_can_be_pasted_and_lands(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__add=WRITES_A_TEST)
    words = ("add it's test", "--allow", "src", "--exec", "python tools/add.py", "--test", "python tools/check.py 0 --x=1")
    (project / "src" / "a.py").write_text("edited = 1\n")
    (project / "src" / "b.py").write_text("edited = 1\n")
    Repository(project, project.parent / "home").commit({}, "edited already")
    code, out, _ = run(stack, project, *words)
    assert code == 1
    assert "path_protected" in out
    line = out.partition("To allow it: ")[2].splitlines()[0]
    _, verb, *again = shlex.split(line)
    assert verb == "run"
    assert again[again.index("--allow-tests") + 1] == "tests/test_x y.py"
    again = [word for word in again if word not in ("--env", str(PREFIX))]
    code, out, err = run(stack, project, *again)
    assert code == 0, out + err


def test_a_missing_program_is_named_with_the_searched_folders(stack: Stack, make_project: MakeProject) -> None:
    """Another host's request is not looked through beforehand: the worker and the test runner say it."""
    project = make_project()
    program = next(name for name in ("cargo", "gradle", "rake") if shutil.which(name, path=PATH) is None)
    missing = AcceptanceTest(name="unit", cmd=f"{program} test", must_pass=True)
    request = replace(slow_request(project, 0), acceptance_tests=(missing,))
    with stack.client() as client:
        tested = client.wait(client.submit_request(request), timeout=PATIENCE)
        executor = Executor(kind="command", commands=("pyupgrade {paths}",))
        made = client.wait(client.submit_request(replace(request, executor=executor)), timeout=PATIENCE)
    assert tested.failure is not None
    assert f"ended with 127: '{program}', or a program that it starts, was not found" in tested.failure.message
    assert f"in --env {PREFIX}" in tested.failure.message
    assert tested.tests is not None
    assert f"unit ended with 127: '{program}' was not found in --env {PREFIX}" in (tested.tests.failure or "")
    assert made.failure is not None
    assert f"exit 127: 'pyupgrade' was not found in --env {PREFIX}" in made.failure.message


def test_commits_that_exist_are_judged_and_landed_as_one_by_their_author(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    repository = Repository(project, project.parent / "home")
    repository.git("switch", "-q", "-c", "agents/fix")
    repository.commit({"src/a.py": b"edited = 1\n"}, "first half")
    (project / "src" / "data.bin").write_bytes(b"edited \xc3\xa4 " * 9)
    repository.git("mv", "src/b.py", "src/moved.py")
    repository.commit({"src/moved.py": b"edited = 2\n"}, "the whole fix")
    repository.git("switch", "-q", "main")
    before = repository.git("rev-parse", "main", "agents/fix")
    words = ("--head", "agents/fix", "--allow", "src", "--test", CHECK)
    code, result = stack.run(project, *words)
    assert code == 0, result
    assert repository.git("rev-parse", f"{result['commit']}^{{tree}}") == repository.git("rev-parse", "agents/fix^{tree}")
    shown = repository.git("log", "-1", "--format=%an|%cn|%s|%P", result["commit"]).decode().strip().split("|")
    assert shown == ["A. Person", "Gatewright", "a change", repository.head("main")]
    assert repository.git("rev-parse", "main", "agents/fix") == before
    contract = json.loads((Path(result["bundle"]) / "contract.json").read_text())
    assert contract["source_branch"]["head"] == repository.head("agents/fix")
    assert contract["author"] == {"name": "A. Person", "email": "person@example.org"}
    repository.git("switch", "-q", "agents/fix")
    repository.commit({"README.md": b"out of scope\n"}, "too much")
    repository.git("switch", "-q", "main")
    code, result = stack.run(project, *words)
    assert (code, result["failure"]["code"]) == (1, "path_out_of_scope")
    assert result["retry_with"] == ["--allow", "README.md"]


def test_a_piped_patch_lands_and_uncommitted_files_are_reported(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    repository = Repository(project, project.parent / "home")
    (project / "src" / "a.py").write_text("edited = 1\n")
    (project / "src" / "b.py").write_text("edited = 1\n")
    patch = repository.git("diff")
    code, out, err = run(stack, project, "x", "--allow", "src", "--patch", "-", "--test", CHECK, stdin=patch)
    assert code == 0, out + err
    assert "warning: 2 files are not committed (2 changed) and no part of the run, which starts from HEAD" in err


def test_without_an_argument_the_last_run_is_verified(stack: Stack, make_project: MakeProject) -> None:
    code, result = stack.run(make_project(), "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert code == 0, result
    assert json.loads(stack.command("verify", "--json").stdout)["run_id"] == result["run_id"]


@pytest.mark.parametrize("land", [("--target-ref", "never-was"), ("--target-ref", "main")])
def test_an_unusable_target_ends_the_run_before_any_task(
    stack: Stack, make_project: MakeProject, land: tuple[str, ...]
) -> None:
    project = make_project()
    words = ("--allow", "src", "--exec", EDIT, "--test", CHECK, "--land", "target", *land)
    code, result = stack.run(project, *words)
    assert code in (1, 2)
    assert result["failure"]["code"] in ("target_missing", "target_checked_out")
    assert "moved" not in result["failure"]["message"]
    lines = (Path(result["bundle"]) / "events.jsonl").read_text().splitlines()
    assert "task_dispatched" not in {json.loads(line)["event_type"] for line in lines}


def test_a_watch_that_begins_before_its_run_shows_it_to_the_end(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    key = f"to-come-{project}"[:128]
    run_id = run_id_of(key, OPERATOR_PUBLISHER)
    environment = stack.environment | {"PATH": "/usr/bin:/bin"}
    argv = [sys.executable, "-m", "gatewright.app.cli.main", "watch", run_id, "--timeout", "60", "--json"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        with killed_on_failure(watching):
            assert f"there is no {run_id} yet: waiting for it" in watching.stderr.readline()
            with stack.client() as client:
                assert client.submit_request(replace(slow_request(project, 0), idempotency_key=key)) == run_id
            out, _ = watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 0
    assert json.loads(out.splitlines()[-1])["status"] == "SUCCESS"


def test_a_running_stack_takes_the_environment_that_a_run_names(
    stack: Stack, make_project: MakeProject, tmp_path: Path
) -> None:
    """README's own order: ``up``, then ``run --env .venv``."""
    project, later = make_project(), tmp_path / "later"
    shutil.copytree(PREFIX, later, symlinks=True)
    words = ("edit", "--allow", "src", "--exec", EDIT, "--test", CHECK, "--env", str(later))
    done = invoke_in(project, stack.environment | {"PATH": "/usr/bin:/bin"}, ("run", *words))
    assert done.returncode == 0, done.stdout
    assert f"the running stack offers {later} from now on, until it ends\n" in done.stdout
