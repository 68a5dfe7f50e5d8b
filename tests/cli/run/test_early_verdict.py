"""What the gates refuse whatever an environment holds is refused before one is made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Command, MakeRepository

#: No registry has it: an environment that is begun ends in ``environment_not_prepared``.
NOT_TO_BE_HAD = "no-such-package-anywhere==1.0\n"
RUN = ("run", "do it", "--test", "python -m pytest -q", "--env", "auto")


@pytest.fixture
def project(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = make_repository("r")
    (top / "requirements.txt").write_text(NOT_TO_BE_HAD)
    (top / "tests").mkdir()
    (top / "tests/test_a.py").write_text("def test_a():\n    pass\n")
    for words in (("add", "."), ("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "second")):
        subprocess.run(("git", *words), cwd=top, check=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(top))
    monkeypatch.chdir(top)
    return top


def patch_of(top: Path, path: str) -> Path:
    (top / path).write_text("changed\n")
    patch = subprocess.run(("git", "diff"), cwd=top, capture_output=True, check=True).stdout
    subprocess.run(("git", "checkout", "-q", path), cwd=top, check=True)
    (top.parent / "change.diff").write_bytes(patch)
    return top.parent / "change.diff"


@pytest.mark.parametrize(
    ("path", "code", "opens"),
    [
        ("tests/test_a.py", "path_protected", ["--allow-tests", "tests/test_a.py"]),
        ("requirements.txt", "path_protected", ["--allow-dependencies"]),
    ],
)
def test_a_patch_of_a_protected_path_is_refused_before_an_environment(
    gatewright: Command, project: Path, path: str, code: str, opens: list[str]
) -> None:
    said = gatewright(*RUN, "--allow", "tests", "--allow", "requirements.txt", "--patch", patch_of(project, path), "--json")
    result = json.loads(said.out.splitlines()[-1])
    assert (said.exit_code, result["failure"]["code"], result["retry_with"]) == (1, code, opens)
    assert not list(project.glob(".git/gatewright/environments/*"))


def test_a_patch_out_of_scope_is_refused_before_an_environment(gatewright: Command, project: Path) -> None:
    said = gatewright(*RUN, "--allow", "src", "--patch", patch_of(project, "a.txt"))
    assert said.exit_code == 1
    assert "✘ scope     a.txt is outside the allowed paths (src) [path_out_of_scope]" in said.err
    assert "Nothing landed." in said.err
    assert "To allow it: gatewright run" in said.err
    assert said.err.strip().endswith("--allow a.txt")


def test_a_command_that_is_not_allowed_is_refused_before_an_environment(gatewright: Command, project: Path) -> None:
    said = gatewright("run", "x", "--allow", "src", "--exec", "frobnicate", "--test", "python -m pytest", "--env", "auto")
    assert said.exit_code == 1
    assert "command_not_allowed" in said.err


def test_a_scope_that_is_too_broad_is_refused_before_an_environment(gatewright: Command, project: Path) -> None:
    said = gatewright(*RUN, "--allow", ".", "--exec", "true")
    assert said.exit_code == 1
    assert "path_too_broad" in said.err


def test_a_wrong_option_is_refused_before_an_environment(gatewright: Command, project: Path) -> None:
    said = gatewright(*RUN, "--allow", "src", "--exec", "true", "--land", "target")
    assert said.exit_code == 2
    assert "--land target needs --target-ref" in said.err


def test_a_run_that_may_pass_goes_on_to_its_environment(gatewright: Command, project: Path) -> None:
    said = gatewright(*RUN, "--allow", "a.txt", "--patch", patch_of(project, "a.txt"))
    assert said.exit_code == 3
    assert "environment_not_prepared" in said.err


def test_what_cannot_land_is_refused_before_an_environment(gatewright: Command, project: Path) -> None:
    subprocess.run(("git", "branch", "gatewright"), cwd=project, check=True)
    said = gatewright(*RUN, "--allow", "src", "--exec", "true")
    assert said.exit_code == 1
    assert "ref_in_the_way" in said.err
    assert not list(project.glob(".git/gatewright/environments/*"))
