"""Proofs that a person decides on: the policy pack asks, and an approval rule names who answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.reports import CallReplay, DifferingCall, RedFirst, TestCounts, TestProof
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.ecosystems.records import write_table
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.run.state import Run
from tests.attacks.people import LANDING, Inbox, open_inbox, signed
from tests.attacks.whole_gatekeeper import RUN, make_tests
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

Opened = Callable[..., AbstractAsyncContextManager[Inbox]]
RULE = LANDING | {"name": "proofs", "reason": "proof"}
CALL = DifferingCall(
    path="README.md", line=1, function="price", arguments="(1)", under_test="returns 2", in_production="returns 0"
)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a vacuous test": (
        "passes_without_change",
        {"red_first": RedFirst(tests=1, passed_count=1, passed=("README.md::b",))},
        "pass without the change: README.md::b: README.md",
    ),
    "other behaviour": (
        "behaviour",
        {"replay": CallReplay(functions=1, called=1, calls=1, replayed=1, differ_count=1, differ=(CALL,))},
        "price(1) returns 2 in the test runner, and outside returns 0",
    ),
    "an untested file": ("untested_change", {"untouched": ("README.md",)}, "changed, and loaded by no test: README.md"),
}


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Opened:
    def open_asking(field: str, *rules: dict[str, object], word: str = "asked") -> AbstractAsyncContextManager[Inbox]:
        def adapt(policies: Path) -> None:
            packs = json.loads((policies / "policy_packs.json").read_text())
            packs["low"][field] = word
            (policies / "policy_packs.json").write_text(json.dumps(packs))

        return open_inbox(make_repository(), tmp_path, *rules, clock=HandClock(), adapt=adapt)

    return open_asking


async def tested(inbox: Inbox, **facts: Any) -> Run:
    """The run after a test report with these facts in its proof."""
    test = AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True)
    await inbox.submit(acceptance_tests=(test,))
    await inbox.gatekeeper.work(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
    report = make_tests(await inbox.gatekeeper.review())
    unproven = "there is no place for planted tests"
    table = await inbox.gatekeeper.bus.put_artifact(write_table({"README.md::b": "passed"}))
    counts = TestCounts(passed=1, failed=0, skipped=0)
    proof = TestProof(framework="pytest", complete=True, unproven=unproven, counts=counts, table=table, **facts)
    *others, last = report.commands
    return await inbox.gatekeeper.answer("testrunner", replace(report, commands=(*others, replace(last, proof=proof))))


@pytest.mark.parametrize("case", CASES)
async def test_a_person_who_approves_lands_it(opened: Opened, tmp_path: Path, case: str) -> None:
    field, facts, words = CASES[case]
    async with opened(field, RULE) as inbox:
        run = await tested(inbox, **facts)
        assert run.state == "AWAITING_APPROVAL"
        asked = await inbox.asked()
        assert (asked.reason, asked.stage) == ("proof", "candidate")
        assert words in asked.why
        await inbox.decide(signed(await inbox.said()))
        assert (await inbox.run()).status == "SUCCESS"
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


@pytest.mark.parametrize("case", CASES)
async def test_without_a_rule_it_is_refused_with_advice(opened: Opened, case: str) -> None:
    field, facts, _ = CASES[case]
    async with opened(field, LANDING) as inbox:
        run = await tested(inbox, **facts)
        (report,) = await inbox.gatekeeper.reports("tests")
    assert run.status != "SUCCESS"
    assert [violation.code for violation in report.violations] == [
        {"behaviour": "behaves_differently_under_test"}.get(field, field)
    ]
    assert "one of the reason proof" in report.violations[0].detail


@pytest.mark.parametrize("case", CASES)
async def test_a_pack_that_records_asks_no_person(opened: Opened, case: str) -> None:
    field, facts, _ = CASES[case]
    async with opened(field, RULE, word="recorded") as inbox:
        assert (await tested(inbox, **facts)).status == "SUCCESS"


async def test_a_proof_without_a_fault_asks_no_person(opened: Opened) -> None:
    async with opened("passes_without_change", RULE) as inbox:
        red = RedFirst(tests=1, failed_count=1)
        assert (await tested(inbox, red_first=red)).status == "SUCCESS"
