"""How much a change risks: the worst signal decides, and what cannot be told is none of low risk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gatewright.contracts import RoutingRules
from gatewright.contracts.people.approvals import ApprovalRule, Risk
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Scope
from gatewright.errors import DeniedError
from gatewright.rules.approvals import TIERS, matching_rules
from gatewright.rules.routing import is_due, path_kinds, route
from gatewright.run.evolve import fold
from gatewright.run.state import FoundReason, Run
from tests.evidence.candidate_runs import make_candidates
from tests.evidence.routed_runs import RULES, RoutedRun

LOW = {"high": 0, "low": 2, "other": 0}


def make_tested() -> Run:
    """Only files of low risk, and proof of every command."""
    recorded = RoutedRun()
    recorded.up_to_the_tests()
    run = recorded.run
    assert run.candidate is not None
    assert run.tests is not None
    unit = run.tests.commands[0]
    assert unit.proof is not None
    proved = replace(unit, proof=replace(unit.proof, mutation=None))
    candidate = replace(run.candidate, path_kinds=LOW, changed_files=2, changed_lines=10)
    return replace(run, candidate=candidate, tests=replace(run.tests, commands=(proved,)))


def of_candidate(run: Run, **changes: object) -> Run:
    assert run.candidate is not None
    return replace(run, candidate=replace(run.candidate, **changes))


def of_tests(run: Run, **changes: object) -> Run:
    assert run.tests is not None
    return replace(run, tests=replace(run.tests, **changes))


def of_command(of: Run, **changes: object) -> Run:
    assert of.tests is not None
    return of_tests(of, commands=(replace(of.tests.commands[0], **changes),))


def of_proof(run: Run, **changes: object) -> Run:
    assert run.tests is not None
    proof = run.tests.commands[0].proof
    assert proof is not None
    return of_command(run, proof=replace(proof, **changes))


def with_scope(run: Run, scope: Scope) -> Run:
    assert run.contract is not None
    return replace(run, contract=replace(run.contract, scope=scope))


def with_network(run: Run) -> Run:
    assert run.contract is not None
    permissions = replace(run.contract.tool_permissions, network="allow")
    return replace(run, contract=replace(run.contract, tool_permissions=permissions))


def with_findings(run: Run) -> Run:
    assert run.review is not None
    finding = Finding(code="odd_name", message="an odd name", blocking=False)
    return replace(run, review=replace(run.review, findings=(finding,)))


def found(run: Run, reason: str) -> Run:
    return replace(run, found_reasons=(FoundReason(reason, "setup.cfg", run.attempt, 0),))


CASES = {
    "all is well": (lambda run: run, "low", ""),
    "a file of neither kind": (lambda run: of_candidate(run, path_kinds=LOW | {"other": 1}), "medium", "paths"),
    "a file of high risk": (lambda run: of_candidate(run, path_kinds=LOW | {"high": 1}), "high", "paths"),
    "no file at all": (lambda run: of_candidate(run, path_kinds=dict.fromkeys(LOW, 0)), "medium", "paths"),
    "paths that were not told": (lambda run: of_candidate(run, path_kinds=None), "high", "paths"),
    "many files": (lambda run: of_candidate(run, changed_files=21), "medium", "size"),
    "too many files": (lambda run: of_candidate(run, changed_files=51), "high", "size"),
    "many lines": (lambda run: of_candidate(run, changed_lines=401), "medium", "size"),
    "too many lines": (lambda run: of_candidate(run, changed_lines=2001), "high", "size"),
    "lines that were not told": (lambda run: of_candidate(run, changed_lines=None), "medium", "size"),
    "a protected path": (lambda run: found(run, "protected_class:dependencies"), "high", "protected"),
    "a broad scope": (lambda run: found(run, "broad_scope"), "high", "permissions"),
    "network": (with_network, "high", "permissions"),
    "destructive operations": (lambda run: with_scope(run, Scope(destructive=("drop",))), "high", "permissions"),
    "an opened kind": (lambda run: with_scope(run, Scope(allow=("binary",))), "medium", "kinds"),
    "tests outside of a sandbox": (lambda run: of_tests(run, sandbox="none"), "high", "validation"),
    "a sandbox that was not told": (lambda run: of_tests(run, sandbox=None), "high", "validation"),
    "no command that had to pass": (lambda run: of_tests(run, commands=()), "medium", "validation"),
    "no proof": (lambda run: of_command(run, proof=None), "medium", "validation"),
    "a proof that shows nothing": (lambda run: of_proof(run, unproven="no test ran"), "medium", "validation"),
    "a test that passed the second time": (lambda run: of_command(run, run=2), "medium", "validation"),
    "findings that do not block": (with_findings, "medium", "review"),
    "a second round": (lambda run: replace(run, attempt=2), "medium", "history"),
    "a third round": (lambda run: replace(run, attempt=3), "high", "history"),
}


@pytest.mark.parametrize(("change", "tier", "signal"), CASES.values(), ids=CASES)
def test_the_worst_signal_is_the_tier(change: object, tier: Risk, signal: str) -> None:
    assert callable(change)
    routing = route(change(make_tested()))
    assert routing.tier == tier
    assert [each.signal for each in routing.signals if each.tier != "low"] == ([signal] if signal else [])


def test_mutants_that_no_test_noticed_leave_a_doubt() -> None:
    recorded = RoutedRun()
    recorded.up_to_the_tests()
    codes = [trigger.code for trigger in route(recorded.run).critic_triggers]
    assert "mutants_survived" in codes
    assert "proof_missing" in codes


def test_no_lane_of_a_maker_or_a_model_satisfies_a_gate() -> None:
    lanes = {lane.lane: lane for lane in route(make_tested()).lanes}
    assert {name for name, lane in lanes.items() if lane.satisfies is None} == {"work", "opinion", "critic", "person"}
    assert [lane.authority for lane in lanes.values() if lane.satisfies is not None].count("edit") == 0
    assert [name for name, lane in lanes.items() if lane.status == "skipped"] == ["opinion", "critic", "person"]
    assert all(lane.reason for lane in lanes.values())


@pytest.mark.parametrize("wanted", TIERS)
def test_a_rule_asks_from_its_tier_on(wanted: Risk) -> None:
    rule = ApprovalRule(name="risk", reason="risk_tier", risk="medium", approvers=("ana",), within_seconds=60, from_tier=wanted)
    run = make_tested()
    run = replace(run, accepted=replace(run.accepted, approval_rules=(rule,)))
    for tier, state in (("low", run), ("medium", replace(run, attempt=2)), ("high", replace(run, attempt=3))):
        routing = route(state)
        asks = TIERS.index(tier) >= TIERS.index(wanted)
        assert bool(matching_rules(replace(state, routing=routing), "candidate")) == asks
        (person,) = (lane for lane in routing.lanes if lane.lane == "person")
        assert (person.required, person.satisfies) == (asks, "approval" if asks else None)


def test_a_rule_about_risk_asks_where_the_risk_is_unknown() -> None:
    risk = ApprovalRule(name="risk", reason="risk_tier", risk="high", approvers=("ana",), within_seconds=60)
    rules = (risk, replace(risk, name="doubts", reason="critic"))
    run = make_tested()
    run = replace(run, accepted=replace(run.accepted, approval_rules=rules))
    assert [each.rule.name for each in matching_rules(run, "candidate")] == ["risk", "doubts"]


def test_routing_is_due_once_per_tree_after_all_passed() -> None:
    run = make_tested()
    assert is_due(run)
    assert not is_due(replace(run, tests_passed=False))
    assert not is_due(replace(run, state="S3"))
    assert not is_due(replace(run, accepted=replace(run.accepted, routing=None)))
    routed = replace(run, routing=route(run))
    assert not is_due(routed)
    assert is_due(of_candidate(routed, tree="f" * 40))


def test_what_was_not_tested_has_no_routing() -> None:
    with pytest.raises(DeniedError) as refusal:
        route(replace(make_tested(), tests=None))
    assert refusal.value.reason == "gate_not_evaluated"


PATHS = {
    b"docs/a.txt": "low",
    b"docs": "other",
    b"Docs/a.txt": "other",
    b"src/docs/a.txt": "high",
    b"SRC/a.py": "high",
    b"src.py": "other",
    b"lib/a.md": "low",
    b"src/a.md": "high",
    b"lib/a.md.py": "other",
    "S\u017fRC/a.py".encode(): "other",
    "\u017frc/a.py".encode(): "high",
    b"docs/\xff.txt": "low",
}


@pytest.mark.parametrize(("path", "kind"), PATHS.items())
def test_where_a_path_lies(path: bytes, kind: str) -> None:
    assert path_kinds(RULES, [path]) == {"high": 0, "low": 0, "other": 0} | {kind: 1}


@given(st.lists(st.binary(max_size=60)))
def test_every_path_is_of_one_kind(paths: list[bytes]) -> None:
    assert sum(path_kinds(RULES, paths).values()) == len(paths)
    assert path_kinds(RoutingRules(version="1"), paths) == {"high": 0, "low": 0, "other": len(paths)}


def test_of_several_candidates_the_chosen_one_is_routed() -> None:
    run = fold(make_candidates().transitions[:-1])
    assert run is not None
    assert run.chosen
    run = replace(run, accepted=replace(run.accepted, routing=RULES))
    assert is_due(run)
    (work,) = (lane for lane in route(run).lanes if lane.lane == "work")
    assert work.refs == (f"{run.run_id}.plan.w01.c{run.chosen}",)
