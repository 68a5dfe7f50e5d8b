"""Runs that wait for people: what asks, what parks, what silence does, and that nothing about it lives in a process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.contracts import AbortRequest, ApprovalsRequest, codec
from gatewright.contracts.vocabulary import Budget, Executor, Scope, ToolPermissions
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.store import Ledger
from gatewright.rules.approvals import decision_on, is_cleared, matching_rules, pending, unasked_rules
from gatewright.services.gatekeeper.decider.gate_checks import LandingCheck
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Continue, DeadlineReached
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.deadlines import Deadlines
from gatewright.services.gatekeeper.projections.entries import read_entry
from tests.attacks.people import LANDING, WEEK, Inbox, inbox_of, open_inbox, policies_with, signed
from tests.attacks.whole_gatekeeper import RUN, open_gatekeeper
from tests.gatekeeper.contexts import delivered_policies
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

Opened = Callable[..., AbstractAsyncContextManager[Inbox]]
Rule = dict[str, object]
NETWORK = ToolPermissions(filesystem="workspace-write", shell="never", network="allow", mcp_tools=())
FILES = {"README.md": b"text\n", "requirements.txt": b"\n", "src/a.py": b"a = 1\n", "docs/b.txt": b"b\n"}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> Opened:
    return lambda *rules: open_inbox(make_repository(files=FILES), tmp_path, *rules, clock=clock)


def rule_of(reason: str, **fields: object) -> Rule:
    return LANDING | {"name": reason.replace("_", "-"), "reason": reason} | fields


def assert_verified(folder: Path) -> None:
    found = verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public]).findings
    assert found == ()


async def events(inbox: Inbox) -> list[str]:
    position = await inbox.gatekeeper.orchestrator.ledger.get(RUN)
    return [record.event_type for step in position.transitions for record in step.events]


async def test_with_the_delivered_policies_no_run_asks_anybody(opened: Opened) -> None:
    assert delivered_policies().people.rules == ()
    async with opened() as inbox:
        run = await inbox.to_the_candidate()
        assert run.status == "SUCCESS"
        assert not [name for name in await events(inbox) if name.startswith("approval")]


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        (rule_of("network"), {"tool_permissions": NETWORK}),
        (rule_of("agent"), {"executor": Executor(kind="model", model="m")}),
        (rule_of("budget", above_usd=2), {"budget": Budget(cost_usd=3)}),
        (rule_of("budget"), {"executor": Executor(kind="agent", agent="codex")}),
        (rule_of("destructive"), {"scope": Scope(destructive=("rm -r docs",))}),
    ],
    ids=["network", "agent", "budget", "no-budget", "destructive"],
)
async def test_what_a_contract_orders_is_a_reason_to_ask(opened: Opened, rule: Rule, changes: dict[str, Any]) -> None:
    async with opened(rule) as inbox:
        plain = await inbox.submit()
        assert (plain.state, matching_rules(plain, "contract")) == ("S2", ())
        assert plain.contract is not None
        ordered = msgspec.structs.replace(plain, contract=msgspec.structs.replace(plain.contract, **changes))
        (found,) = matching_rules(ordered, "contract")
        assert found.why
        assert not is_cleared(ordered, "contract")


async def test_a_command_of_a_listed_class_needs_approval_before_work(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    tidy = Executor(kind="command", commands=("tidy docs",))
    repository = make_repository(files=FILES)
    for number, (rule, asks) in enumerate(
        [
            (rule_of("command"), True),
            (rule_of("command", commands=["dependency-install"]), False),
            (rule_of("command", commands=["network"]), True),
            (rule_of("network"), False),
        ]
    ):
        folder = tmp_path / str(number)
        policies = policies_with(folder / "policies", rule)
        listed = json.loads((policies / "command_allowlist.json").read_text())
        listed["commands"].append({"prefix": ["tidy"], "uses": ["executor"], "class": "network", "operands": 1})
        (policies / "command_allowlist.json").write_text(json.dumps(listed))
        async with open_gatekeeper(repository, folder, policies=policies, clock=clock) as gatekeeper:
            inbox = inbox_of(gatekeeper, clock)
            run = await inbox.submit(executor=tidy)
            assert run.failure is None, run.failure
            assert (run.state, bool(pending(run))) == (("AWAITING_APPROVAL", True) if asks else ("S2", False)), rule
            if asks:
                assert "network: tidy docs" in (await inbox.asked()).why
                await inbox.decide(signed(await inbox.said()))
                assert (await inbox.work()).status == "SUCCESS"
                assert_verified(folder)


async def test_a_broad_scope_needs_approval_before_any_work(opened: Opened, tmp_path: Path) -> None:
    paths = {"allowed_paths": ("src", "docs", "README.md", "requirements.txt")}
    async with opened() as inbox:
        assert (await inbox.gatekeeper.submit(inbox.contract(**paths))).failure is not None
    async with open_inbox(inbox.gatekeeper.repository, tmp_path / "asking", rule_of("broad_scope"), clock=inbox.clock) as inbox:
        run = await inbox.submit(**paths)
        assert (run.state, run.locks) == ("AWAITING_APPROVAL", None)
        assert [task.status for task in run.workers()] == ["PENDING"]
        assert "whole repository" in (await inbox.asked()).why
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
        assert (run.state, [task.status for task in run.workers()]) == ("S2", ["RUNNING"])
        assert (await inbox.work()).status == "SUCCESS"
        assert_verified(tmp_path / "asking")


async def test_a_dependency_that_the_contract_opens_is_asked_about_before_it_lands(opened: Opened, tmp_path: Path) -> None:
    allowed = {"allowed_paths": ("README.md", "requirements.txt"), "scope": Scope(allow_dependency_change=True)}
    async with opened(rule_of("protected_class", classes=["dependencies"])) as inbox:
        await inbox.submit(**allowed)
        run = await inbox.work({"requirements.txt": b"six==1.17.0\n"})
        assert run.state == "AWAITING_APPROVAL"
        assert (await inbox.asked()).why == "dependencies: requirements.txt"
        await inbox.decide(signed(await inbox.said()))
        assert_verified(tmp_path)


async def test_a_change_that_touches_no_protected_path_is_not_asked_about(opened: Opened) -> None:
    async with opened(rule_of("protected_class")) as inbox:
        assert (await inbox.to_the_candidate()).status == "SUCCESS"


async def test_landing_elsewhere_than_the_rule_names_is_not_asked_about(opened: Opened) -> None:
    async with opened(rule_of("landing", refs=["refs/heads/main"])) as inbox:
        assert (await inbox.to_the_candidate()).status == "SUCCESS"


async def test_what_was_approved_is_void_for_another_tree(opened: Opened) -> None:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate()
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
        assert is_cleared(run, "candidate")
        assert run.candidate is not None
        other = replace(run, candidate=msgspec.structs.replace(run.candidate, tree="f" * 40))
        assert not is_cleared(other, "candidate")
        assert [each.rule.name for each in unasked_rules(other, "candidate")] == ["landing"]


async def test_silence_ends_the_run_when_the_time_is_over(opened: Opened, clock: HandClock, tmp_path: Path) -> None:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate()
        assert await rings(inbox) == ()
        clock.seconds += WEEK + 1
        assert await rings(inbox) == (RUN,)
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
        run = await inbox.run()
        assert run.failure is not None
        assert run.failure.code == "approval_expired"
        assert inbox.gatekeeper.nothing_landed()
        assert_verified(tmp_path)


async def test_silence_asks_others_where_the_rule_names_them_and_once(opened: Opened, clock: HandClock, tmp_path: Path) -> None:
    async with opened(LANDING | {"approvers": ["ana"], "escalate_to": ["ben"]}) as inbox:
        await inbox.to_the_candidate()
        clock.seconds += WEEK + 1
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
        asked = await inbox.asked()
        assert (asked.approvers, asked.escalates_from) == (("ben",), f"{RUN}.ask.1")
        assert await rings(inbox) == ()
        await inbox.decide(signed(await inbox.said(person="ben"), "ben"))
        assert (await inbox.run()).status == "SUCCESS"
        assert_verified(tmp_path)


async def rings(inbox: Inbox) -> tuple[str, ...]:
    """The runs one of whose moments has come, as a gatekeeper that has just started reads the ledger."""
    deadlines = Deadlines()
    async for message in inbox.gatekeeper.bus.replay("gw.run.*"):
        entry = read_entry(message)
        assert entry is not None
        deadlines.saw(entry)
    return deadlines.due(inbox.clock.now().timestamp())


async def test_the_wall_clock_budget_stops_while_a_person_decides(opened: Opened, clock: HandClock, tmp_path: Path) -> None:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate(budget=Budget(wall_sec=60))
        clock.seconds += 3600
        assert await rings(inbox) == ()
        await inbox.decide(signed(await inbox.said()))
        assert (await inbox.run()).status == "SUCCESS"
        assert_verified(tmp_path)


async def test_a_run_can_be_aborted_while_it_waits(opened: Opened, tmp_path: Path) -> None:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate()
        request = AbortRequest(run_id=RUN, reason="not wanted any more", requested_by="tests")
        await inbox.gatekeeper.orchestrator.advance(RUN, AbortReceived(request, "abort"))
        assert (await inbox.run()).status == "ABORTED"
        (standing,) = (await listed(inbox)).approvals
        assert standing.status == "withdrawn"
        assert_verified(tmp_path)


async def listed(inbox: Inbox, **asked: Any) -> Any:
    return await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=RUN, **asked)))


async def test_a_request_is_shown_with_patch_and_gate_verdicts(opened: Opened) -> None:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate()
        (standing,) = (await listed(inbox, details=True)).approvals
        assert "+another text" in standing.patch
        assert [gate.gate for gate in standing.gates][-1] == "tests"


async def test_what_a_rule_approves_by_itself_is_recorded_as_the_rules(opened: Opened, tmp_path: Path) -> None:
    async with opened(LANDING | {"risk": "low", "autopilot": True}) as inbox:
        run = await inbox.to_the_candidate()
        assert run.status == "SUCCESS"
        (asked,) = run.approvals.values()
        assert (asked.status, asked.person) == ("autopilot", "landing")
        verified = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
        assert verified.findings == ()
        assert verified.approved[0].startswith("the rule landing approved by itself")


async def test_paths_released_while_waiting_are_locked_again_before_landing(opened: Opened, tmp_path: Path) -> None:
    async with opened(LANDING | {"release_locks": True}) as inbox:
        run = await inbox.to_the_candidate()
        assert (run.state, run.locks) == ("AWAITING_APPROVAL", None)
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
        assert run.locks is not None
        assert run.status == "SUCCESS"
        assert (await events(inbox)).count("locks_taken") == 2
        assert_verified(tmp_path)


@pytest.fixture
async def parked(opened: Opened) -> AsyncIterator[Inbox]:
    async with opened(LANDING) as inbox:
        await inbox.to_the_candidate()
        yield inbox


async def test_another_gatekeeper_that_knows_only_the_ledger_takes_the_answer(parked: Inbox, tmp_path: Path) -> None:
    async def has_ended(_run_id: str) -> bool:
        return False

    old = parked.gatekeeper.orchestrator
    gates = changed(old.gates, locks=PathLocks(parked.gatekeeper.bus, has_ended))
    fresh = changed(old, ledger=Ledger(parked.gatekeeper.bus), gates=gates)
    await fresh.advance(RUN, Continue("resume"))
    known = (await fresh.ledger.get(RUN)).run
    assert known is not None
    assert len(pending(known)) == 1
    service = changed(parked.service, orchestrator=fresh)
    other = Inbox(changed(parked.gatekeeper, orchestrator=fresh), service, parked.clock)
    await other.decide(signed(await other.said()))
    assert (await other.run()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_the_landing_gate_refuses_an_unapproved_landing(parked: Inbox) -> None:
    """The decider asks first; were it ever passed by, the gate still looks."""
    verdict = await parked.gatekeeper.orchestrator.gates.answer(LandingCheck(await parked.run()))
    assert verdict.report.code == "approval_missing"
    assert parked.gatekeeper.nothing_landed()


async def test_the_inbox_is_there_after_a_start(parked: Inbox) -> None:
    index = ApprovalIndex()
    async for message in parked.gatekeeper.bus.replay("gw.run.*"):
        entry = read_entry(message)
        assert entry is not None
        index.saw(entry)
    assert index.runs(open_only=True) == (RUN,)
    await parked.decide(signed(await parked.said()))
    async for message in parked.gatekeeper.bus.replay("gw.run.*"):
        entry = read_entry(message)
        assert entry is not None
        index.saw(entry)
    assert index.runs(open_only=True) == ()
    assert index.runs(open_only=False) == (RUN,)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([LANDING | {"approvers": ["zoe"]}], "no such person"),
        ([LANDING | {"escalate_to": ["@nobody"]}], "no such person"),
        ([LANDING, LANDING], "twice"),
        ([rule_of("protected_class", risk="low", autopilot=True)], "by itself"),
        ([rule_of("command", risk="low", autopilot=True)], "by itself"),
        ([LANDING | {"autopilot": True}], "by itself"),
        ([LANDING | {"risk": "low", "autopilot": True, "phrase": "yes"}], "by itself"),
        ([LANDING | {"risk": "high", "batch": True}], "batch"),
        ([LANDING | {"reason": "mood"}], "reason"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_at_the_start(tmp_path: Path, rules: list[Rule], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load(policies_with(tmp_path / "policies", *rules))


def test_a_rule_that_asks_is_refused_where_there_is_no_roster(tmp_path: Path) -> None:
    folder = policies_with(tmp_path / "policies", LANDING)
    (folder / "approvers.json").unlink()
    with pytest.raises(ConfigurationError, match="no such person"):
        load(folder)


def test_a_key_that_stands_with_two_people_is_refused_at_the_start(tmp_path: Path) -> None:
    folder = policies_with(tmp_path / "policies", LANDING)
    people = json.loads((folder / "approvers.json").read_text())
    people["people"][1]["keys"] = people["people"][0]["keys"]
    (folder / "approvers.json").write_text(json.dumps(people))
    with pytest.raises(ConfigurationError, match="twice"):
        load(folder)


def test_the_policy_digest_changes_with_rules_and_roster(tmp_path: Path) -> None:
    found = {delivered_policies().sha256, load(policies_with(tmp_path / "one", LANDING)).sha256}
    found.add(load(policies_with(tmp_path / "two", LANDING | {"risk": "high"})).sha256)
    folder = policies_with(tmp_path / "three", LANDING)
    (folder / "approvers.json").write_text((folder / "approvers.json").read_text() + " ")
    found.add(load(folder).sha256)
    assert len(found) == 4


@pytest.mark.long
async def test_a_batch_decision_clears_requests_with_a_signed_record_each(opened: Opened, tmp_path: Path) -> None:
    easy = [LANDING | {"name": f"easy-{number}", "batch": True} for number in range(98)]
    hard = [LANDING | {"name": f"hard-{number}", "risk": "high"} for number in range(2)]
    async with opened(*easy, *hard) as inbox:
        run = await inbox.to_the_candidate()
        said = {"verdict": "approve", "person": "ana", "decided_at": "2026-01-01T00:00:00.000Z"}
        requests = [asked.request for asked in pending(run)]
        together = [signed(decision_on(each, **said)) for each in requests if each.risk != "high"]
        alone = [signed(decision_on(each, **said)) for each in requests if each.risk == "high"]
        for batch in (together, *([each] for each in alone)):
            await inbox.decide(*batch)
        assert (await inbox.run()).status == "SUCCESS"
        assert (len(requests), len(list((tmp_path / "runs" / RUN).glob("approvals/*/*.sshsig")))) == (100, 100)
        assert_verified(tmp_path)
