"""A receipt proves a landing by itself; a receipt that was tampered with does not."""

from __future__ import annotations

import pytest

from gatewright.contracts import codec
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.contracts.queue_receipt import GitObject, QueueReceipt
from gatewright.errors import MalformedError
from gatewright.queue import events as e
from gatewright.queue.commands import Compose
from gatewright.queue.receipt import read_receipt, receipt, receipt_bytes
from gatewright.rules.reports.receipt import LandingFacts, check_receipt
from tests.queue.tampered_receipts import OTHER, TAMPERED
from tests.queue.world import World, entry

RUNS = tuple(f"run-{number:05}" for number in range(6))


def landed_world() -> World:
    """Three positions of two runs that land by one push, and one more."""
    world = World(QueuePolicy(batch_size=2, window=Window(start=3, most=3)), files={"src/kept.py": "x", "docs/a/b": "y"})
    world.deliver(e.QueueHeld(reason="by_person", by="person"))
    world.enqueue(*(entry(run_id) for run_id in RUNS))
    world.deliver(e.QueueResumed(by="person"))
    while composing := [each for each in world.due() if isinstance(each, Compose)]:
        world.deliver(world.carry_out(composing[0]))
    world.deliver(world.carry_out(world.due()[-1]))
    world.run()
    world.enqueue(entry("run-later"))
    return world.run()


@pytest.fixture(scope="module")
def world() -> World:
    return landed_world()


def facts_of_first(world: World, run_id: str = RUNS[0]) -> LandingFacts:
    return next(each for each in world.facts_of(world.receipts[0]) if each.run_id == run_id)


def faults_of(document: QueueReceipt, facts: LandingFacts) -> set[str]:
    return {fault.pointer for fault in check_receipt(document, facts)}


def test_a_receipt_proves_its_landing_to_each_of_its_runs(world: World) -> None:
    assert [len(each.runs) for each in world.receipts[0].positions] == [2, 2, 2]
    for facts in world.facts_of(world.receipts[0]):
        assert faults_of(world.receipts[0], facts) == set()


@pytest.mark.every_case
@pytest.mark.parametrize("kind", TAMPERED)
def test_a_tampered_receipt_is_refused(world: World, kind: str) -> None:
    tamper, pointer = TAMPERED[kind]
    found = faults_of(tamper(world.receipts[0]), facts_of_first(world))
    assert any(each.startswith(pointer) for each in found), found


def test_a_receipt_of_another_landing_is_refused(world: World) -> None:
    assert {"/before", "/positions", f"/changes/{RUNS[0]}"} <= faults_of(world.receipts[1], facts_of_first(world))


def test_a_receipt_in_the_bundle_of_another_run_is_refused(world: World) -> None:
    later = next(world.facts_of(world.receipts[1]))
    assert {"/before", "/positions", "/changes/run-later"} <= faults_of(world.receipts[0], later)


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["commit", "tree", "previous"])
def test_a_landing_that_the_run_recorded_differently_is_refused(world: World, name: str) -> None:
    facts = facts_of_first(world)
    known = {each: getattr(facts, each) for each in LandingFacts.__dataclass_fields__} | {name: OTHER.commit}
    assert faults_of(world.receipts[0], LandingFacts(**known))


def test_a_receipt_is_read_as_it_was_written(world: World) -> None:
    document = world.receipts[0]
    assert read_receipt(codec.encode(document)) == document
    with pytest.raises(MalformedError, match="canonical"):
        read_receipt(codec.encode(document) + b" ")
    with pytest.raises(MalformedError, match="not a receipt"):
        read_receipt(b"{}")


def test_a_receipt_without_all_its_parts_is_not_written(world: World) -> None:
    document = world.receipts[0]
    for reports, objects in ((document.reports, document.objects[1:]), (document.reports[1:], document.objects)):
        with pytest.raises(MalformedError) as caught:
            receipt_bytes(document, reports, objects)
        assert caught.value.reason == "receipt_missing"


def test_a_receipt_that_is_too_large_is_not_written(world: World) -> None:
    document = world.receipts[0]
    objects = (*document.objects, GitObject(kind="tree", data=bytes(8 << 20)))
    with pytest.raises(MalformedError) as caught:
        receipt_bytes(document, document.reports, objects)
    assert caught.value.reason == "receipt_too_large"
    with pytest.raises(MalformedError) as caught:
        read_receipt(b" " * ((8 << 20) + 1))
    assert caught.value.reason == "receipt_too_large"


def test_only_what_is_landing_has_a_receipt(world: World) -> None:
    queue = e.fold(world.history[:5])
    assert queue is not None
    with pytest.raises(MalformedError, match="is not landing"):
        receipt(queue, 1)
