"""A receipt proves a landing; a receipt that was tampered with does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gatewright.errors import MalformedError
from gatewright.queue import events as e
from gatewright.queue.commands import Compose
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.queue.receipt import LandingFacts, QueueReceipt, ReportFacts, check_receipt, receipt
from gatewright.queue.state import Tip
from tests.queue.invariants import landings
from tests.queue.world import DIGEST, World, digest, entry

RUNS = tuple(f"run-{number:05}" for number in range(6))
OTHER = Tip(commit=digest("other"), tree=digest("other tree"))


def landed_world() -> World:
    """Three positions that land by one push, and one more."""
    world = World(QueuePolicy(batch_size=2, window=Window(start=3, most=3)))
    world.enqueue(*(entry(run_id) for run_id in RUNS))
    while composing := [each for each in world.due() if isinstance(each, Compose)]:
        world.deliver(world.carry_out(composing[0]))
    world.deliver(world.carry_out(world.due()[-1]))
    world.run()
    world.enqueue(entry("run-later"))
    return world.run()


@pytest.fixture(scope="module")
def world() -> World:
    return landed_world()


def faults_of(world: World, document: QueueReceipt, **other: object) -> set[str]:
    event = next(landings(world))
    facts = world.landing_facts(event)
    known = {name: getattr(facts, name) for name in LandingFacts.__dataclass_fields__} | other
    return {fault.pointer for fault in check_receipt(document, LandingFacts(**known), world.tree_of)}


def at(document: QueueReceipt, index: int, **changes: object) -> QueueReceipt:
    positions = list(document.positions)
    positions[index] = replace(positions[index], **changes)
    return replace(document, positions=tuple(positions))


def swapped(document: QueueReceipt) -> QueueReceipt:
    first, second, *others = document.positions
    return replace(document, positions=(second, first, *others))


def without_a_run(document: QueueReceipt) -> QueueReceipt:
    position = document.positions[0]
    return at(document, 0, runs=position.runs[1:], commits=position.commits[1:])


#: What is changed, and the pointer of a fault that it must give.
TAMPERED: dict[str, tuple[Callable[[QueueReceipt], QueueReceipt], str]] = {
    "another repository": (lambda r: replace(r, repository="elsewhere"), "/repository"),
    "another branch": (lambda r: replace(r, branch="elsewhere"), "/branch"),
    "another base": (lambda r: replace(r, before=OTHER), "/before"),
    "another result": (lambda r: replace(r, after=OTHER), "/after"),
    "another policy": (lambda r: replace(r, policy_sha256="b" * 64), "/positions"),
    "another order": (swapped, "/positions/0"),
    "a run left out": (without_a_run, "/positions/0/tree"),
    "a run twice": (lambda r: at(r, 1, runs=r.positions[0].runs), "/positions/1/runs"),
    "an unknown run": (lambda r: at(r, 0, runs=(r.positions[0].runs[0], "run-unknown")), "/positions/0/runs"),
    "another tree on the way": (lambda r: at(r, 0, tree=OTHER.tree), "/positions/0/tree"),
    "no report": (lambda r: at(r, -1, report_sha256=""), "/positions"),
    "a report of another tree": (lambda r: at(r, -1, report_sha256="c" * 64), "/positions"),
    "a red report": (lambda r: at(r, -1, outcome="failed"), "/positions"),
    "an assumption that failed": (lambda r: at(r, 1, resolved=("landed", "tests_failed")), "/positions/1/resolved"),
    "an assumption left out": (lambda r: at(r, 1, ahead=(), resolved=()), "/positions/1"),
    "a commit left out": (lambda r: at(r, 0, commits=r.positions[0].commits[1:]), "/positions/0/commits"),
    "no positions": (lambda r: replace(r, positions=()), "/after"),
}


def test_a_receipt_proves_its_landing(world: World) -> None:
    assert len(world.receipts[0].positions) > 1
    assert faults_of(world, world.receipts[0]) == set()


@pytest.mark.every_case
@pytest.mark.parametrize("kind", TAMPERED)
def test_a_tampered_receipt_is_refused(world: World, kind: str) -> None:
    tamper, pointer = TAMPERED[kind]
    report = ReportFacts(OTHER.tree, DIGEST, passed=True)
    reports = {**world.reports, "c" * 64: report}
    assert pointer in faults_of(world, tamper(world.receipts[0]), reports=reports)


def test_a_receipt_copied_from_another_landing_is_refused(world: World) -> None:
    assert {"/before", "/after"} <= faults_of(world, world.receipts[1])


def test_changes_of_a_run_that_differ_from_what_landed_are_found(world: World) -> None:
    changes = {run_id: each.changes for run_id, each in world.entries.items()}
    changes[RUNS[0]] = entry("another").changes
    assert faults_of(world, world.receipts[0], changes=changes) == {f"/positions/{index}/tree" for index in range(3)}


def test_only_what_is_landing_has_a_receipt(world: World) -> None:
    queue = e.fold(world.history[:5])
    assert queue is not None
    with pytest.raises(MalformedError, match="is not landing"):
        receipt(queue, 1)
