"""When the decider asks about changed packages, pulls them, and orders tests in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from gatewright.contracts import GateReport
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.vocabulary import Environment
from gatewright.run import events as e
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.gate_checks import PullCheck, PullVerdict, next_step, required_checks
from gatewright.services.gatekeeper.decider.inputs import Continue
from tests.evidence.approved_runs import decided
from tests.evidence.pulled_runs import BEFORE, ORDER, PULLED, PulledRun

NOW = datetime(2026, 12, 1, tzinfo=UTC)
MADE = OrderedEnvironment(prefix=PULLED, ecosystem="python")
FURTHER = OrderedEnvironment(prefix="/srv/toolchain")


@dataclass
class Unasked(PulledRun):
    """The run before anything is asked: the request is left to the decider."""

    def step(self, *events: e.LabelledEvent) -> None:
        if not isinstance(events[0].event, e.ApprovalRequested):
            super().step(*events)


def unasked() -> Run:
    run = Unasked()
    run.up_to_the_yes()
    return run.run


def approved() -> Run:
    run = PulledRun()
    run.up_to_the_yes()
    (asked,) = run.run.approvals.values()
    run.step(e.LabelledEvent(decided(asked.request)), run.gate("approval"), e.LabelledEvent(e.StateEntered(state="S4")))
    return run.run


def verdict(run: Run, code: str = "ok", *, waits: bool = False) -> PullVerdict:
    report = PulledRun().gate("environment", code=code).event
    assert isinstance(report, e.GateJudged)
    judged: GateReport = replace(report.report, run_id=run.run_id)
    return PullVerdict(judged, (MADE, FURTHER) if code == "ok" and not waits else (), waits)


def events_after(run: Run, *verdicts: PullVerdict) -> list[e.RunEvent]:
    transition = decide(run, Continue("step"), verdicts, NOW)
    return [e.event_of(each) for each in transition.events] if transition is not None else []


def test_people_are_asked_about_the_order_before_the_tests() -> None:
    run = unasked()
    assert run.running("testrunner") is None
    assert next_step(run) == "ask"
    requested, parked = events_after(run)
    assert isinstance(requested, e.ApprovalRequested)
    assert (requested.request.stage, requested.request.order_sha256) == ("environment", ORDER.sha256)
    assert requested.request.candidate_tree == (run.candidate.tree if run.candidate is not None else "")
    assert "requirements.txt" in requested.request.why
    assert parked == e.StateEntered(state="AWAITING_APPROVAL")


def test_no_order_pulls_without_an_approval() -> None:
    run = approved()
    assert run.contract is not None
    contract = replace(run.contract, tool_permissions=replace(run.contract.tool_permissions, network="allow"))
    pulled = e.EnvironmentPulled(tree=run.candidate.tree if run.candidate else "", order_sha256=ORDER.sha256, environments=())
    assert pulled.may_follow(run) == ""
    assert pulled.may_follow(replace(run, contract=contract)) != ""
    assert pulled.may_follow(replace(run, approvals={})) != ""


def test_a_working_puller_changes_nothing() -> None:
    run = approved()
    assert required_checks(run, Continue("step")) == (PullCheck(run),)
    assert events_after(run, verdict(run, waits=True)) == []


def test_pulled_environments_are_the_tests_and_not_the_baselines() -> None:
    run = approved()
    _, pulled, dispatched = events_after(run, verdict(run))
    assert isinstance(pulled, e.EnvironmentPulled)
    assert (pulled.order_sha256, pulled.environments) == (ORDER.sha256, (MADE, FURTHER))
    assert isinstance(dispatched, e.TaskDispatched)
    assert dispatched.contract is not None
    assert dispatched.contract.environment is not None
    assert dispatched.contract.environment.prefixes == f"{PULLED}, /srv/toolchain"
    assert dispatched.contract.baseline_environment == Environment(prefix=BEFORE)


@pytest.mark.parametrize("code", ["puller_missing", "environment_unapproved", "egress_policy_missing"])
def test_a_refused_pull_ends_the_run_without_tests(code: str) -> None:
    run = approved()
    events = events_after(run, verdict(run, code))
    assert not any(isinstance(each, e.TaskDispatched | e.EnvironmentPulled) for each in events)
    (finished,) = [each for each in events if isinstance(each, e.RunFinished)]
    assert (finished.status, finished.code) == ("FAILED", code)


def test_a_yes_is_about_the_order_that_was_shown() -> None:
    run = approved()
    assert run.candidate is not None
    other = replace(run, candidate=replace(run.candidate, order=replace(ORDER, sha256="7" * 64)))
    assert next_step(other) == "ask"
    assert events_after(other, verdict(other))[0].event_type == "approval_requested"


def test_a_repair_with_the_same_order_needs_no_further_yes() -> None:
    run = approved()
    assert run.candidate is not None
    assert next_step(replace(run, candidate=replace(run.candidate, tree="7" * 40))) == "pull"
