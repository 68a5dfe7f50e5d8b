"""CI files on the stack of a home folder: its owner is asked, and the home's key signs the answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, Stack, wait_until
from tests.e2e.terminal import Terminal
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE

WORKFLOW = ".github/workflows/test.yml"
PATCH = b"""diff --git a/.github/workflows/test.yml b/.github/workflows/test.yml
new file mode 100644
--- /dev/null
+++ b/.github/workflows/test.yml
@@ -0,0 +1 @@
+on: [push, pull_request]
"""
QUESTION = "Approve? [y/N]"


def order(project: Path) -> tuple[str, ...]:
    """The words of a run that adds a workflow."""
    patch = project.parent / "ci.diff"
    patch.write_bytes(PATCH)
    words = ("--allow", ".github", "--patch", str(patch), "--test", "test -d src", "--env", str(PREFIX))
    return ("run", "test pull requests too", *words)


def landed_files(project: Path, shown: str) -> str:
    """The files of the branch that the run has landed on."""
    branch = next(word for word in shown.split() if word.startswith("gatewright/run-"))
    return subprocess.run(
        ("git", "ls-tree", "-r", "--name-only", branch), cwd=project, check=True, capture_output=True, text=True
    ).stdout


def test_the_owner_is_asked_at_the_terminal_and_a_yes_lands(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    terminal = Terminal(stack, project, *order(project))
    terminal.read_until(QUESTION)
    assert f"ci: {WORKFLOW}" in terminal.shown
    assert "| +on: [push, pull_request]" in terminal.shown
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.shown
    assert WORKFLOW in landed_files(project, terminal.shown)
    run_id = terminal.shown.rpartition("gatewright show ")[2].split()[0].partition("\x1b")[0]
    verified = stack.command("verify", run_id)
    assert verified.returncode == 0
    assert "approved own-ci-files" in verified.stdout


def test_an_empty_answer_rejects_and_nothing_lands(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    terminal = Terminal(stack, project, *order(project))
    terminal.read_until(QUESTION)
    terminal.type("\n")
    assert terminal.end() == 1
    assert "approval_rejected" in terminal.shown


def test_without_a_terminal_the_run_waits_for_the_command_that_it_prints(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    argv = [sys.executable, "-m", "gatewright.app.cli.main", *order(project)]
    log = project.parent / "said.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, cwd=project, env=stack.environment, stdin=subprocess.DEVNULL, stdout=output)
    with killed_on_failure(process):
        wait_until(lambda: "gatewright approvals approve " in log.read_text())
        assert QUESTION not in log.read_text()
        words = log.read_text().partition("gatewright approvals approve ")[2].split("`")[0]
        assert stack.command("approvals", "approve", words).returncode == 0
        assert process.wait(PATIENCE) == 0
    assert WORKFLOW in landed_files(project, log.read_text())


def test_a_script_without_a_stack_is_refused_at_once(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    argv = [sys.executable, "-m", "gatewright.app.cli.main", *order(project)]
    home = {"GATEWRIGHT_HOME": str(project.parent / "own-home")}
    done = subprocess.run(
        argv, cwd=project, env=stack.environment | home, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "path_protected" in done.stdout
    assert not (project.parent / "own-home" / "own-policies").exists()
