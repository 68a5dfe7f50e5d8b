"""When things happened, as the drawing has it."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import msgspec

from gatewright.app.report.drawing import draw
from gatewright.view.timeline import timeline_of
from tests.evidence.recorded_runs import RecordedRun, make_failed, make_fixed, make_success


def test_states_follow_one_another_without_a_gap() -> None:
    run = make_success()
    timeline = timeline_of(run.records, run.run_id)
    states = [row for row in timeline.rows if row.kind == "state"]
    assert [row.name for row in states] == ["Intake", "Plan", "Execute", "Review", "Test", "Done"]
    spans = [span for row in states for span in row.spans]
    assert spans[0].start == 0
    assert all(one.end == two.start for one, two in itertools.pairwise(spans))
    assert spans[-1].end == timeline.seconds


def test_tasks_stand_below_their_state_and_carry_their_gates() -> None:
    run = make_success()
    rows = timeline_of(run.records, run.run_id).rows
    names = [row.name for row in rows]
    assert names.index("Execute") < names.index("plan.w01") < names.index("plan.w02") < names.index("Review")
    (shard,) = (row for row in rows if row.name == "plan.w01")
    assert [(mark.gate, mark.passed) for mark in shard.marks] == [("diff", True)]


def test_round_of_fixing_is_a_second_span_and_a_mark_in_time() -> None:
    run = make_fixed()
    timeline = timeline_of(run.records, run.run_id)
    (execute,) = (row for row in timeline.rows if row.name == "Execute")
    assert [span.attempt for span in execute.spans] == [1, 2]
    (review,) = (row for row in timeline.rows if row.name == "Review")
    assert [span.ending for span in review.spans] == ["bad", "good"]
    assert len(timeline.attempts) == 1


def test_refusal_is_a_bar_and_not_a_dot() -> None:
    run = make_failed()
    drawn = draw(timeline_of(run.records, run.run_id))
    assert [each.tag for each in drawn.iter() if each.get("class") == "mark bad"] == ["line"]
    assert {each.tag for each in drawn.iter() if each.get("class") == "mark good"} == {"circle"}


def test_task_that_never_ended_is_drawn_open() -> None:
    run = RecordedRun()
    run.accept()
    run.plan()
    timeline = timeline_of(run.records, run.run_id)
    (shard,) = (row for row in timeline.rows if row.name == "plan.w01")
    assert [span.ending for span in shard.spans] == ["open"]


def test_only_open_spans_continue_until_now() -> None:
    run, ended = RecordedRun(), make_success()
    run.accept()
    run.plan()
    plain = timeline_of(run.records, run.run_id)
    now = datetime.fromisoformat(run.records[0].ts) + timedelta(hours=1)
    later = timeline_of(run.records, run.run_id, now)
    (shard,) = (row for row in later.rows if row.name == "plan.w01")
    assert shard.spans[0].end == later.seconds == 3600
    assert [row.name for row in later.rows] == [row.name for row in plain.rows]
    assert timeline_of(ended.records, ended.run_id, now + timedelta(days=9)) == timeline_of(ended.records, ended.run_id)


def test_times_that_are_none_or_go_backwards_draw_nothing_outside() -> None:
    run = make_success()
    stamps = itertools.cycle(["2026-01-01T00:00:00", "x"])
    records = [msgspec.structs.replace(record, ts=next(stamps)) for record in run.records]
    for drawn in draw(timeline_of(records, run.run_id)).iter("rect"):
        assert 0 <= float(drawn.get("x", "").rstrip("%")) <= 100
