"""``context``: blocks of data as they were answered, with nothing in them that a terminal obeys."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright.app.cli.run_context import budget_lines, context_lines, flaky_lines
from gatewright.contracts import BudgetState, BudgetStates, FlakyTest, FlakyTests, RunContext
from gatewright.contracts.run_status import ContextSection
from tests.cli.conftest import Command


def test_sections_are_shown_line_by_line_and_name_omissions() -> None:
    sections = (
        ContextSection(selector="summary", text="one\ntwo\x1b[2J\u202e", characters=9, cut=False),
        ContextSection(selector="diff", text="+a", characters=90_000, cut=True),
    )
    found = RunContext(run_id="run-0123456789", seq=4, status="RUNNING", state="S3", attempt=1, sections=sections)
    assert list(context_lines(found)) == ["summary", "one", "two\\x1b[2J\\u202e", "diff (cut: --full prints all)", "+a"]


def test_a_run_or_a_repository_is_named_and_not_both(gatewright: Command) -> None:
    for words in ((), ("run-0123456789", "--repo", ".")):
        said = gatewright("context", *words, "--json")
        assert (said.exit_code, said.documents[0]["error"]["code"]) == (2, "missing")


def test_without_a_system_context_explains_how_to_start_one(gatewright: Command) -> None:
    said = gatewright("context", "run-0123456789", "--json")
    assert (said.exit_code, said.documents[0]["error"]["code"]) == (3, "no_stack")


def make_flake(test: str, **fields: object) -> FlakyTest:
    flake = FlakyTest(
        repository="//git.example.org/shop",
        cmd_argv=("python", "-m", "pytest"),
        test=test,
        plays=41,
        failures=3,
        flaky_trees=2,
        last_run="run-0123456789",
        last_failed_at="2026-11-03T10:15:00.000Z",
    )
    return replace(flake, **fields)


def test_flaky_tests_are_a_table_without_control_characters() -> None:
    found = FlakyTests(tests=(make_flake("t.py::b"), make_flake("\x1b[2J\u202e\n", plays=0, failures=0)), reports=57, more=True)
    assert flaky_lines(found) == [
        "RATE   FAILED   FLAKY TREES  LAST FAILURE    TEST (COMMAND) REPOSITORY",
        "7.3 %  3 of 41  2            run-0123456789  t.py::b (python -m pytest) //git.example.org/shop",
        "0.0 %  0 of 0   2            run-0123456789  \\x1b[2J\\u202e\\n (python -m pytest) //git.example.org/shop",
        "and more: name a repository or a shorter time",
    ]


def test_a_long_test_id_is_shown_whole() -> None:
    found = FlakyTests(tests=(make_flake("t.py::" + "x" * 294),), reports=57, more=False)
    assert "x" * 294 in flaky_lines(found)[1]


def test_without_runs_no_test_is_flaky(gatewright: Command) -> None:
    answer = gatewright("tests", "flaky", "--json")
    assert (answer.exit_code, answer.documents) == (0, [{"tests": [], "reports": 0, "more": False}])
    words = "no flaky tests: no test failed and passed on one tree in 0 test reports"
    assert words in gatewright("tests", "flaky").out


@pytest.mark.parametrize("since", ["0s", "91d", "soon", "-1d"])
def test_an_impossible_age_limit_is_refused(gatewright: Command, since: str) -> None:
    answer = gatewright("tests", "flaky", f"--since={since}", "--json")
    assert (answer.exit_code, answer.documents[0]["error"]["code"]) == (2, "invalid_input")


def test_budgets_are_a_table_with_a_mark_where_they_are_nearly_used() -> None:
    state = BudgetState(
        name="team",
        period="day",
        ends="2026-03-01T00:00:00.000Z",
        repositories=("*",),
        runs=2,
        spent_tokens=700,
        reserved_tokens=100,
        tokens=1000,
    )
    calm = replace(state, name="calm", spent_tokens=0, cost_usd=2.5, spent_usd=1.0)
    assert budget_lines(BudgetStates(budgets=(state, calm))) == [
        "   BUDGET    USED  OPEN RUNS  RENEWED           USED AND RESERVED (REPOSITORIES)",
        "!  team/day  80%   2          2026-03-01T00:00  800 of 1,000 tokens, 100 reserved (*)",
        "   calm/day  40%   2          2026-03-01T00:00  100 of 1,000 tokens, 100 reserved, 1 of 2.5 USD, 0 reserved (*)",
    ]
    assert budget_lines(BudgetStates(budgets=())) == ["no budget of the organisation limits these runs (budgets.json)"]
