"""A choice among candidates is computed again from a bundle: a key does not make another one true."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.git.patches.lines import changed_lines
from gatewright.run import events as e
from tests.evidence.candidate_runs import make_candidates
from tests.evidence.contradictions import Change, as_told, leave_out, refused, replay_history, report, swap
from tests.evidence.recorded_runs import RecordedRun


def sealed(recorded: RecordedRun, signer: Signer, root: Path) -> Verification:
    written = asyncio.run(BundleWriter(root).seal(recorded.run, recorded.transitions, recorded.store, signer))
    return verify(Path(written.location), [signer.public])


def other_number(choice: e.CandidateChosen) -> e.CandidateChosen:
    return changed(choice, candidate=1)


def other_order(choice: e.CandidateChosen) -> e.CandidateChosen:
    return changed(choice, candidate=1, standings=tuple(reversed(choice.standings)))


def better_loser(choice: e.CandidateChosen) -> e.CandidateChosen:
    """The loser's facts are made better, so that the rule leads to it."""
    winner, loser = choice.standings
    return changed(choice, candidate=1, standings=(changed(loser, changed_lines=1), winner))


def cheaper(choice: e.CandidateChosen) -> e.CandidateChosen:
    return changed(choice, standings=(choice.standings[0], changed(choice.standings[1], cost_usd=3.0)))


def without_loser(choice: e.CandidateChosen) -> e.CandidateChosen:
    return changed(choice, standings=choice.standings[:1])


def of_the_first(order: e.TaskDispatched) -> e.TaskDispatched:
    assert order.contract is not None
    return changed(order, contract=changed(order.contract, candidate=1))


@pytest.mark.parametrize("findings", [{}, {2: 1}], ids=["the_smaller", "the_one_without_findings"])
def test_an_honest_choice_holds(findings: dict[int, int], signer: Signer, tmp_path: Path) -> None:
    recorded = make_candidates(findings)
    assert recorded.run.chosen == (1 if findings else 2)
    assert sealed(replay_history(recorded, as_told), signer, tmp_path).findings == ()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (swap(e.CandidateChosen, other_number), "choice_contradicts"),
        (swap(e.CandidateChosen, other_order), "choice_contradicts"),
        (swap(e.CandidateChosen, better_loser), "choice_contradicts"),
        (swap(e.CandidateChosen, cheaper), "choice_contradicts"),
        (swap(e.CandidateChosen, without_loser), "choice_contradicts"),
        (swap(e.CandidateComposed, lambda given: changed(given, changed_lines=400), 0), "choice_contradicts"),
        (report(e.ReviewReceived, 1, findings=()), "choice_contradicts"),
        (leave_out(lambda payload: isinstance(payload, e.CandidateChosen)), "out_of_turn"),
        (refused("tests", "tests_failed"), "gate_ignored"),
        (
            swap(e.TaskDispatched, lambda given: changed(given, contract=changed(given.contract, candidate=1))),
            "task_contradicts",
        ),
    ],
    ids=[
        *("another_number", "another_order", "a_better_loser", "a_cheaper_loser", "a_loser_left_out", "another_size"),
        *("a_finding_taken_out", "no_choice", "a_winner_that_was_refused", "another_candidates_test"),
    ],
)
def test_a_choice_that_the_facts_do_not_bear_out_is_found(change: Change, code: str, signer: Signer, tmp_path: Path) -> None:
    recorded = make_candidates({1: 1, 2: 1})
    found = sealed(replay_history(recorded, change), signer, tmp_path)
    assert found.outcome == "not_verified"
    assert code in {finding.code for finding in found.findings}, found.findings


def test_the_run_seen_from_a_candidate_has_nothing_of_another() -> None:
    run = make_candidates().run
    for number in (1, 2):
        seen = run.seen_from(number)
        assert [task.candidate for task in seen.workers()] == [number]
        assert {task.candidate for task in seen.tasks.values()} == {0, number}
        assert seen.candidate is not None
        assert seen.candidate.candidate == number
    assert run.seen_from(0) is run


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        (b"", 0),
        (b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n", 2),
        (b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n--- a\n+++ b\n", 2),
        (b"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", 0),
        (b"diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\nKcmZQzWdHyG0RRF3\n\nliteral 0\nHcmV?d00001\n\n", 4),
        (b"@@ -x,y +1,999999999999 @@\n+a\n", 0),
        (b"@@ nothing\n+a\n", 0),
    ],
    ids=["empty", "edited", "lines_like_headers", "mode", "binary", "garbled", "no_hunk"],
)
def test_changed_lines_are_those_that_a_patch_adds_and_removes(patch: bytes, lines: int) -> None:
    assert changed_lines(patch) == lines
