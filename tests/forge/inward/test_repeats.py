"""A head whose runs were ended by faults of the infrastructure is judged again, a few times and later each time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gatewright.app.forge.inward import JUDGED_AGAIN_AFTER, JudgedHeads, judged_heads
from tests.evidence.recorded_runs import START
from tests.forge.outward.runs import HEAD, ForgeRun, view_of

FAULT = "git_timeout"


def run(number: int, code: str | None = FAULT) -> ForgeRun:
    made = ForgeRun(key=f"run-{number}", number=7)
    return made.fail(code) if code is not None else made.begin()


def judged(*runs: ForgeRun, after: float) -> JudgedHeads:
    view = view_of(*runs)
    ended = max(row.finished_at or row.created_at for row in view.rows)
    assert ended
    return judged_heads(view, START + timedelta(seconds=after))


@pytest.mark.parametrize("broken", range(1, len(JUDGED_AGAIN_AFTER) + 1))
def test_each_repetition_waits_longer(broken: int) -> None:
    runs = [run(number) for number in range(broken)]
    wait = JUDGED_AGAIN_AFTER[broken - 1]
    assert judged(*runs, after=wait - 1) == JudgedHeads(frozenset({HEAD}))
    assert judged(*runs, after=wait + 3600) == JudgedHeads(broken={HEAD: broken})


def test_faults_without_end_are_not_repeated_without_end() -> None:
    runs = [run(number) for number in range(len(JUDGED_AGAIN_AFTER) + 1)]
    assert judged(*runs, after=1e7) == JudgedHeads(frozenset({HEAD}))


@pytest.mark.parametrize("code", ["tests_failed", "path_out_of_scope", "unknown_code", None])
def test_a_judged_or_open_head_is_not_judged_again(code: str | None) -> None:
    assert judged(run(1), run(2, code), after=1e7) == JudgedHeads(frozenset({HEAD}))
    assert judged(run(1, code), after=1e7) == JudgedHeads(frozenset({HEAD}))
