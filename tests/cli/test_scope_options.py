"""The options of ``run`` that open more than plain edits, and the table of kinds that they offer."""

from __future__ import annotations

from typing import get_args

import pytest

from gatewright.app.cli.commands.run_options import Kind
from gatewright.app.cli.run.request import RunOptions, prepare
from gatewright.contracts.vocabulary import ChangeKind, Scope
from tests.cli.conftest import MakeRepository


def test_every_kind_of_the_contract_can_be_named() -> None:
    assert tuple(kind.value for kind in Kind) == get_args(ChangeKind)


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
