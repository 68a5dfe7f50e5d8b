"""A run as ``done``, and the claims that are refused though the schema lets them pass."""

from __future__ import annotations

import json
from dataclasses import replace as changed
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from gatewright.contracts import Done, codec
from gatewright.contracts.consultation import RefusedQuestion
from gatewright.errors import MalformedError
from gatewright.evidence.projection.history import RunHistory, ended_history, evidence_records
from gatewright.resources import schema_directory
from gatewright.work_documents.brief import brief_of
from gatewright.work_documents.done import FORBIDDEN, check, done_of, refuse_forbidden
from gatewright.work_documents.remarks import remark_line, run_remarks
from tests.evidence.approved_runs import make_approved
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_success
from tests.evidence.test_blocked import make_asking

FULL = json.loads((schema_directory() / "examples/done.v1/valid/full.json").read_bytes())


def history_of(recorded: RecordedRun) -> RunHistory:
    return ended_history(recorded.run, evidence_records(recorded.transitions))


def make_done(**changes: Any) -> Done:
    """The full example, changed; a mapping is merged into the object of that name."""
    document = dict(FULL)
    for name, value in changes.items():
        document[name] = document[name] | value if isinstance(value, dict) else value
    return codec.decode(json.dumps(document).encode(), Done)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_ended_run_has_a_document_without_forbidden_claims(name: str) -> None:
    run = MAKERS[name]()
    done = done_of(history_of(run))
    assert codec.decode(codec.encode(done), Done) == done
    assert (done.status == "done_clean") == (run.run.status == "SUCCESS")
    assert check(done) == ()


def test_facts_of_a_landed_run_carry_over() -> None:
    run = make_success()
    done = done_of(history_of(run))
    assert run.run.landed is not None
    assert (done.ship.requested, done.ship.result, done.ship.commit) == (True, "ok", run.run.landed.commit)
    assert done.evidence.verify_exit_code == 0
    assert done.audit.gates_passed == done.audit.gates_required
    assert done.duration_sec > 0


@pytest.mark.parametrize("status", ["pending", "expired"])
def test_landed_run_with_an_unanswered_question_is_done_and_shows_its_guess(status: Literal["pending", "expired"]) -> None:
    run = make_asking(answered=False)
    history = history_of(run)
    if status == "expired":
        left = {name: replace(asked, status=status) for name, asked in history.run.approvals.items()}
        history = changed(history, run=replace(history.run, approvals=left))
    done = done_of(history)
    assert (done.status, "approval" in done.audit.gates_required) == ("done_clean", False)
    words = "Is the limit 3 or 5? The run went on with its guess: 3"
    assert done.pending_actions == (f"answer: {words}",)
    assert [each.message for each in run_remarks((), history.run) if each.source == "unanswered question"] == [words]
    assert "approval" not in brief_of(history.run, run.records).audit_gates


def test_an_unasked_question_is_a_remark() -> None:
    run = history_of(make_asking()).run
    refused = RefusedQuestion(code="blocked_not_a_file", message=".gatewright-blocked.json is a folder")
    (worker, *_) = run.workers()
    assert worker.result is not None
    result = replace(worker.result, questions_refused=(refused,))
    run = replace(run, tasks={**run.tasks, worker.task_id: replace(worker, result=result)})
    found = [remark_line(each) for each in run_remarks((), run) if each.source == "refused question"]
    assert found == [f"refused question: blocked_not_a_file: {refused.message}"]


def test_an_answered_question_leaves_nothing_to_do() -> None:
    done = done_of(history_of(make_asking()))
    assert (done.status, done.pending_actions) == ("done_clean", ())


def test_a_yes_given_before_a_round_of_fixing_counts_as_passed() -> None:
    history = history_of(make_approved())
    since_the_fix = tuple(report for report in history.decisive if report.gate != "approval")
    done = done_of(changed(history, decisive=since_the_fix))
    assert "approval" in done.audit.gates_passed


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"evidence": {"verify_exit_code": 1}}, "/evidence/verify_exit_code"),
        ({"evidence": {"verify_exit_code": None}}, "/evidence/verify_exit_code"),
        ({"regressions": ["the login is slower"]}, "/regressions"),
        ({"audit": {"gates_required": ["tests", "secaudit"]}}, "/audit/gates_passed"),
        ({"ship": {"result": "failed"}}, "/ship/result"),
        ({"ship": {"result": "frozen"}}, "/ship/result"),
        ({"status": "pending", "pending_actions": []}, "/pending_actions"),
        ({"status": "pending", "pending_actions": ["more"], "evidence": {"verify_exit_code": 2}}, "/evidence/verify_exit_code"),
        ({"status": "failed", "evidence": {"verify_stderr": ""}}, "/evidence/verify_stderr"),
    ],
)
def test_forbidden_combination_is_refused_by_pointer(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(MalformedError) as refusal:
        refuse_forbidden(make_done(**changes))
    assert refusal.value.reason == FORBIDDEN
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ship": {"result": "skipped", "requested": False}},
        {"status": "pending", "pending_actions": ["the second half"]},
        {"status": "failed", "evidence": {"verify_exit_code": 1}},
        {"status": "failed", "regressions": ["worse"], "ship": {"result": "failed"}},
    ],
)
def test_what_is_not_forbidden_is_let_pass(changes: dict[str, Any]) -> None:
    done = make_done(**changes)
    refuse_forbidden(done)
    assert check(done) == ()
