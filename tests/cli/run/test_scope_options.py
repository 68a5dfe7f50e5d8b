"""The options of ``run`` that open more than plain edits, and the table of kinds that they offer."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import get_args

import pytest

from gatewright.app.cli.run.request import prepare
from gatewright.app.cli.run.run_flow import confirm_proposal
from gatewright.contracts.vocabulary import ChangeKind, Scope
from gatewright.order_form.run_options import RunOptions, row
from tests.cli.conftest import MakeRepository


def commit(repository: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("add", "."), (*identity, "commit", "-q", "-m", "tests")):
        subprocess.run(("git", *words), cwd=repository, check=True)


def test_every_kind_of_the_contract_can_be_named() -> None:
    assert row("allow_kinds").bounds.choices == get_args(ChangeKind)


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        ({}, None),
        ({"allow_tests": ("tests",)}, Scope(allow_protected_paths=("tests",))),
        ({"allow_dependencies": True}, Scope(allow_dependency_change=True)),
        ({"allow_kinds": ("binary", "symlink")}, Scope(allow=("binary", "symlink"))),
    ],
)
def test_nothing_is_opened_that_was_not_asked_for(
    options: dict[str, object], scope: Scope | None, make_repository: MakeRepository
) -> None:
    repository = make_repository("project")
    given = RunOptions(
        request="a change",
        repo=str(repository),
        allow=("src",),
        commands=("python x.py",),
        tests=("true",),
        **options,  # type: ignore[arg-type]  # the table above holds valid ones
    )
    assert prepare(given, repository).request.scope == scope


@pytest.mark.parametrize(
    ("path", "opened"),
    [
        ("tests/test_one.py", True),
        ("tests/helper.py", True),
        ("tests/data/golden.json", True),
        ("src/test_new.py", True),
        ("tests/test_new.py", True),
        ("./tests/test_one.py", True),
        ("tests/typing/typing_new.py", True),
        ("tests/data/new.json", True),
        ("tests/v1.2", False),
        ("tests", False),
        ("tests/", False),
        ("tests/data", False),
        ("tests/new", False),
        ("tests/*.py", False),
        ("tests/test_?.py", False),
        ("src/one.py", False),
        ("pyproject.toml", False),
        ("tests/conftest.py", False),
        ("tox.ini", False),
        ("src/../tests/test_one.py", False),
    ],
)
def test_an_exact_test_file_is_opened_by_its_name(path: str, opened: bool, make_repository: MakeRepository) -> None:
    repository = make_repository("project")
    files = ("tests/test_one.py", "tests/helper.py", "tests/data/golden.json", "tests/conftest.py")
    commit(repository, dict.fromkeys(files, "{}"))
    given = RunOptions(request="x", repo=str(repository), allow=(path,), commands=("python x.py",), tests=("true",))
    request = prepare(given, repository).request
    assert request.allowed_paths == (path.removeprefix("./"),)
    assert request.scope == (Scope(allow_protected_paths=request.allowed_paths) if opened else None)


def test_a_test_file_that_the_pm_proposes_is_not_opened(make_repository: MakeRepository) -> None:
    repository = make_repository("project")
    asked = RunOptions(request="x", repo=str(repository), commands=("python x.py",), tests=("true",))
    options = confirm_proposal(asked, ("--allow", "tests/test_one.py", "--allow", "src"))
    assert prepare(options, repository).request.scope is None


def test_a_test_file_that_a_person_names_beside_a_proposal_is_opened(make_repository: MakeRepository) -> None:
    repository = make_repository("project")
    asked = RunOptions(
        request="x", repo=str(repository), allow=("tests/test_one.py",), commands=("python x.py",), tests=("true",)
    )
    options = confirm_proposal(asked, ("--allow", "tests/test_two.py", "--allow", "tests/test_one.py"))
    assert prepare(options, repository).request.scope == Scope(allow_protected_paths=("tests/test_one.py",))
