"""Samples of mutants, judged: what the policy asks for, and samples that contradict themselves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright.contracts.reports import Mutant, MutationSample, TestCommand, TestCounts, TestProof
from gatewright.contracts.vocabulary import AcceptanceTest, MutationBounds
from gatewright.rules.broken import Broken
from gatewright.rules.reports.mutation import broken_by_mutants, sample_in_words
from gatewright.rules.reports.tests import Ordered

BOUNDS = MutationBounds(time_share=0.5, least_seconds=4, most_mutants=4)
ASKED = replace(BOUNDS, must_kill=0.75)


def mutant(line: int, outcome: str, after: str = "<=") -> Mutant:
    return Mutant(path="src/a.py", line=line, column=8, before="<", after=after, outcome=outcome)  # type: ignore[arg-type]


def sample(*outcomes: str, possible: int = 4, out_of_time: bool = False, unproven: str = "") -> MutationSample:
    mutants = tuple(mutant(number, outcome) for number, outcome in enumerate(outcomes, 14))
    return MutationSample(
        seed="a",
        possible=possible,
        tried=len(mutants),
        mutants=mutants,
        seconds=8.1,
        out_of_time=out_of_time,
        unproven=unproven,
    )


def told(found: MutationSample | None, *, name: str = "unit", exit_code: int = 0) -> Ordered:
    test = AcceptanceTest(name=name, cmd="pytest", must_pass=True)
    counts = TestCounts(passed=3, failed=0, skipped=0)
    command = TestCommand(
        name=name,
        cmd_argv=("pytest",),
        must_pass=True,
        timeout_sec=60,
        exit_code=exit_code,
        duration_sec=1,
        stdout="",
        stderr="",
        proof=TestProof(framework="pytest", complete=True, counts=counts, mutation=found),
    )
    return Ordered(test, (command,))


def broken(*found: MutationSample | None, bounds: MutationBounds = ASKED) -> list[Broken]:
    return list(broken_by_mutants([told(each, name=f"unit{number}") for number, each in enumerate(found)], bounds))


def codes(*found: MutationSample | None, bounds: MutationBounds = ASKED) -> list[str]:
    return [each.code for each in broken(*found, bounds=bounds)]


def test_too_few_killed_mutants_break_a_stricter_policy() -> None:
    (found,) = broken(sample("killed", "survived", "timed_out", "survived"))
    assert found == Broken(
        "tests_too_weak",
        "mutants",
        "50% of 4 mutants noticed, 75% are asked for: src/a.py:15 `<` -> `<=`, src/a.py:17 `<` -> `<=`",
        b"src/a.py",
    )
    assert codes(sample("killed", "survived", "timed_out", "killed")) == []


def test_survivors_are_only_reported_where_no_share_is_required() -> None:
    assert codes(sample("survived", "survived", "survived", "survived"), bounds=BOUNDS) == []


def test_a_mutant_that_one_command_notices_is_noticed() -> None:
    assert codes(sample("survived", "killed", "invalid", "killed"), sample("killed", "survived", "killed", "survived")) == []


def test_mutants_that_did_not_run_count_neither_way() -> None:
    assert codes(sample("killed", "invalid", "invalid", "invalid")) == []
    assert codes(sample("invalid", "invalid", "invalid", "invalid")) == []
    assert codes(sample("survived", "invalid", "invalid", "invalid")) == ["tests_too_weak"]


@pytest.mark.parametrize(
    "found",
    [
        sample(out_of_time=True),
        sample(possible=0, unproven="they were not drawn within the time"),
        sample("invalid", out_of_time=True),
    ],
)
def test_untried_mutants_prove_nothing_where_a_share_is_required(found: MutationSample) -> None:
    assert codes(found) == ["tests_too_weak"]
    assert codes(found, bounds=BOUNDS) == []


def test_a_missing_sample_is_refused_where_a_share_is_required() -> None:
    assert codes(None) == ["tests_too_weak"]
    assert codes(None, bounds=BOUNDS) == []


def test_kills_of_tests_that_fail_by_themselves_do_not_count() -> None:
    alone = sample("killed", "killed", out_of_time=True, unproven="the tests do not pass in a workspace of their own")
    assert codes(alone) == ["tests_too_weak"]


def test_a_change_without_mutants_is_not_held_back() -> None:
    assert codes(sample(possible=0)) == []


def test_a_command_that_failed_is_not_asked_for_mutants() -> None:
    assert list(broken_by_mutants([told(None, exit_code=1)], ASKED)) == []


WHOLE = sample("killed", "survived", "killed", "killed")
LIES = {
    "a survivor is left out": replace(WHOLE, mutants=tuple(each for each in WHOLE.mutants if each.outcome != "survived")),
    "it and the figure are": replace(
        WHOLE, tried=3, mutants=tuple(each for each in WHOLE.mutants if each.outcome != "survived")
    ),
    "one is told twice": replace(WHOLE, mutants=(*WHOLE.mutants[:1], *WHOLE.mutants[:1], *WHOLE.mutants[2:])),
    "more than there are": replace(WHOLE, possible=3),
    "more than are asked for": sample(*["killed"] * 5, possible=5),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("bounds", [BOUNDS, ASKED])
def test_a_sample_that_contradicts_itself_is_refused(lie: str, bounds: MutationBounds) -> None:
    assert codes(LIES[lie], bounds=bounds) == ["report_contradicts"]


def test_a_sample_is_summarised_in_one_line() -> None:
    found = sample("killed", "survived", "invalid", possible=40, out_of_time=True)
    words = "3 mutants of 40 possible tried in 8.1 s, when the time was over: 1 killed, 1 did not run, 1 survived: "
    assert sample_in_words(found) == words + "src/a.py:15 `<` -> `<=`"
    assert sample_in_words(sample(possible=0)) == "mutants: the written lines have none"
