"""Whatever says no says of which family its reason is: reports of gates, answers to publishers, answers to tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from gatewright.client.refusals import error_document
from gatewright.clock import SystemClock
from gatewright.contracts import Error, OrchestratorEvent, RunStatus, codec
from gatewright.errors import BusError, DeniedError, GatewrightError, GitError, LimitError, MalformedError
from gatewright.ledger.chain import link
from gatewright.reasons import Family
from gatewright.run import events as e
from gatewright.run.history import begin, follow, follow_all
from gatewright.run.state import RunFailure
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.intake.run_queries import status_of
from gatewright.tasks.disposition import disposition
from gatewright.tasks.protocol import TaskRef, refusal
from tests.client.conftest import make_run
from tests.gatekeeper.simulated_run import Script

SAID: list[tuple[GatewrightError, Family]] = [
    (MalformedError("x"), "bad_input"),
    (GitError("x", code="repository_unreadable"), "bad_input"),
    (DeniedError("x", code="kind_not_allowed"), "refused"),
    (LimitError("x", retry_after=1.0, code="rate_exceeded"), "infrastructure"),
    (GitError("x", code="git_missing"), "infrastructure"),
    (BusError("x", code="jetstream_10047"), "infrastructure"),
]


@pytest.mark.parametrize(("code", "family"), [("tests_failed", "failed"), ("object_missing", "infrastructure")])
def test_a_failed_report_names_the_family_of_its_first_violation(code: str, family: Family) -> None:
    clock, found = SystemClock(), GateReportBuilder("run-0123456789", "tests")
    assert found.build(clock, 0.0).family is None
    found.violate(code, "a_rule", "a detail")
    found.violate("path_out_of_scope", "another_rule", "a detail")
    assert found.build(clock, 0.0).family == family


@pytest.mark.parametrize(("error", "family"), SAID)
def test_the_answer_to_a_publisher_names_the_family(error: GatewrightError, family: Family) -> None:
    assert error_document(error).family == family


@pytest.mark.parametrize(("error", "family"), SAID)
def test_the_refusal_of_a_task_names_the_family(error: GatewrightError, family: Family) -> None:
    answer = refusal("worker", TaskRef("run-0123456789", "t"), disposition(error, attempts=9, max_deliver=1))
    assert codec.decode(answer.data, Error).family == family


def standing(records: list[OrchestratorEvent]) -> RunStatus:
    past = follow_all(records)
    assert past is not None
    return codec.decode(codec.encode(status_of(past)), RunStatus)


def test_the_status_of_an_ended_run_names_the_family() -> None:
    def records(script: Script) -> list[OrchestratorEvent]:
        return [event for transition in make_run(script).transitions for event in transition.events]

    refused, landed = standing(records(Script(landing_refused=True))), standing(records(Script()))
    assert (refused.code, refused.family) == ("landing_conflict", "failed")
    assert (landed.code, landed.family) == ("ok", None)


def test_a_family_that_came_with_a_code_goes_before_the_table() -> None:
    """A gatekeeper of a later version may give codes that this table does not have."""
    past = begin(make_run(Script()).transitions[0].events[0])
    error = Error(code="of_a_later_version", message="x", family="infrastructure")
    event, run = e.with_labels(e.TaskFailed(error=error), past.run), past.run
    (record,) = link([event], run_id=run.run_id, trace_id=run.trace_id, seq=run.seq, head=run.head, now=datetime.now(UTC))
    past = follow(past, record)
    failed = structs.replace(past.run, failure=RunFailure("of_a_later_version", "x"))
    assert replace(past, run=failed).failure_family == "infrastructure"
    failed = structs.replace(past.run, failure=RunFailure("tests_failed", "x"))
    assert replace(past, run=failed).failure_family == "failed"
