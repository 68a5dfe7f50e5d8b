"""The class of a failed command stands in the verdict on it, and decides nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.rules.reports.tests import broken_by_tests
from tests.evidence.recorded_runs import make_success


def failed_with(cmd: str) -> tuple[str, ...]:
    """The words about the only command of a run, once it ended with 1."""
    run = make_success().run
    assert run.contract is not None
    assert run.tests is not None
    test = AcceptanceTest(name="check", cmd=cmd, must_pass=True)
    command = replace(run.tests.commands[0], name="check", cmd_argv=tuple(cmd.split()), exit_code=1, proof=None)
    report = replace(run.tests, commands=(command,), status="FAIL", summary=None)
    contract = replace(run.contract, acceptance_tests=(test,))
    return tuple(f"{each.code} {each.detail}" for each in broken_by_tests(report, run.tests.tree or "", contract))


@pytest.mark.parametrize(
    ("cmd", "words"),
    [
        ("ruff check", "tests_failed check ended with 1 (lint)"),
        ("mypy src", "tests_failed check ended with 1 (typecheck)"),
        ("cargo build", "tests_failed check ended with 1 (build)"),
        ("pytest -q", "tests_failed check ended with 1"),
        ("python check.py", "tests_failed check ended with 1"),
    ],
)
def test_a_verdict_names_the_class_of_a_failed_check(cmd: str, words: str) -> None:
    assert failed_with(cmd) == (words,)
