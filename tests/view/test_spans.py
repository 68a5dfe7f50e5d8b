"""The trace of a run follows from its ledger: one root, every part within its whole, the same ids every time."""

from __future__ import annotations

import pytest

from gatewright.tracing.spans import FinishedSpan
from gatewright.view.spans import run_context, run_spans, task_context
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_failed, make_fixed, make_success
from tests.gatekeeper.simulated_run import Script, SimulatedRun


def spans_of(run: RecordedRun) -> tuple[FinishedSpan, ...]:
    return run_spans(run.run, run.transitions)


def below(spans: tuple[FinishedSpan, ...], span: FinishedSpan) -> list[str]:
    return [each.name for each in spans if each.parent == span.context.span_id]


@pytest.mark.parametrize("name", MAKERS)
def test_each_run_is_one_tree_and_the_same_one_again(name: str) -> None:
    run = MAKERS[name]()
    spans = spans_of(run)
    assert spans == spans_of(run)
    ids = [span.context.span_id for span in spans]
    assert len(ids) == len(set(ids))
    root = spans[0]
    assert (root.context, root.parent) == (run_context(run.run), "")
    assert all(span.parent in ids for span in spans[1:])
    assert {span.context.trace_id for span in spans} == {run.run.trace_id}
    assert all(root.start <= span.start <= span.end <= root.end for span in spans if not span.name.startswith("gate "))


def test_a_landed_run_records_states_tasks_gates_and_its_landing() -> None:
    run = make_success()
    spans = spans_of(run)
    root = spans[0]
    assert below(spans, root) == ["S0 intake", "S1 plan", "S2 execute", "S3 review", "S4 test", "seal"]
    assert root.attributes["cicd.pipeline.result"] == "success"
    assert root.attributes["vcs.ref.head.revision"] == run.git.commit
    tasks = [span for span in spans if span.name.startswith("task ")]
    assert [span.name for span in tasks][-4:] == ["task worker", "task worker", "task reviewer", "task testrunner"]
    sent = {span.context for span in spans if span.kind == "producer"}
    assert sent == {task_context(run.run.trace_id, str(span.attributes["gatewright.task.id"])) for span in tasks}
    assert not [span for span in spans if span.error]


def test_a_refusal_is_recorded_on_gate_task_and_run_spans() -> None:
    spans = spans_of(make_failed())
    failed = [span.name.partition(" run-")[0] for span in spans if span.error == "path_out_of_scope"]
    assert failed == ["run", "task worker", "gate diff"]
    assert spans[0].attributes["cicd.pipeline.result"] == "failure"


def test_each_round_of_the_fix_loop_has_its_own_spans() -> None:
    names = below(spans_of(make_fixed()), spans_of(make_fixed())[0])
    assert names.count("S2 execute") == 2
    assert "S5 fix" in names


def test_the_task_of_a_pm_ends_with_its_answer() -> None:
    played = SimulatedRun(Script())
    while played.under_way:
        played.deliver(played.under_way.pop(0))
    assert played.run is not None
    spans = run_spans(played.run, played.transitions)
    (task,) = [span for span in spans if span.name == "task pm"]
    (planning,) = [span for span in spans if span.name == "S1 plan"]
    assert (task.error, task.end) == ("", planning.start)
    assert [span.name for span in spans if span.error == "unanswered"] == []


def test_a_run_without_events_has_no_spans() -> None:
    assert run_spans(make_success().run, ()) == ()
