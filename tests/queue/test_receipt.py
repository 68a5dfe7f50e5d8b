"""A receipt proves a landing by itself; a receipt that was tampered with does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.contracts.queue_receipt import Blob, GitObject, PositionReport, QueueReceipt, Tip
from gatewright.errors import MalformedError
from gatewright.queue import events as e
from gatewright.queue.commands import Compose
from gatewright.queue.receipt import read_receipt, receipt, receipt_bytes, report_digest
from gatewright.rules.reports.receipt import LandingFacts, check_receipt
from tests.queue.reports import command, part
from tests.queue.world import World, digest, entry, write

RUNS = tuple(f"run-{number:05}" for number in range(6))
OTHER = Tip(commit=digest("other"), tree=digest("other tree"))
Tamper = Callable[[QueueReceipt], QueueReceipt]


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


def with_report(make: Callable[[PositionReport], PositionReport]) -> Tamper:
    """Another report of the last position, whose digest the position names."""

    def tamper(document: QueueReceipt) -> QueueReceipt:
        made = make(next(each for each in document.reports if report_digest(each) == document.positions[-1].report_sha256))
        others = tuple(each for each in document.reports if report_digest(each) != document.positions[-1].report_sha256)
        return at(replace(document, reports=(*others, made)), -1, report_sha256=report_digest(made))

    return tamper


def without_a_command(report: PositionReport) -> PositionReport:
    first, *others = report.parts
    return replace(report, parts=(replace(first, report=replace(first.report, commands=())), *others))


def turned_green(document: QueueReceipt) -> QueueReceipt:
    """A red report of the landed tree that claims to have passed."""
    red = part(document.after.tree, *(command(each, exit_code=1) for each in RUNS))
    return with_report(lambda report: replace(report, parts=(red,)))(document)


def with_object(kind: str, change: Callable[[GitObject], GitObject | None]) -> Tamper:
    def tamper(document: QueueReceipt) -> QueueReceipt:
        chosen = [each for each in document.objects if each.kind == kind][-1]
        altered = change(chosen)
        kept = tuple(each for each in document.objects if each != chosen)
        return replace(document, objects=kept if altered is None else (*kept, altered))

    return tamper


def with_other_parent(document: QueueReceipt) -> QueueReceipt:
    """The last commit on top of another one, and everything that names it."""
    world = World(QueuePolicy())
    last = document.positions[-1]
    made = world.git.commit(document.after.tree, OTHER.commit, f"Change\n\nGatewright-Run: {last.runs[-1]}\n")
    moved = at(document, -1, commits=(*last.commits[:-1], made))
    return replace(moved, after=Tip(commit=made, tree=last.tree), objects=(*document.objects, world.git.objects[made]))


def of_other_run(document: QueueReceipt) -> QueueReceipt:
    """The first commit, with the same tree and parent, in the name of another run."""
    world = World(QueuePolicy())
    first = document.positions[0]
    tree = next(each for each in document.objects if each.kind == "commit" and RUNS[0].encode() in each.data).data.split()[1]
    made = world.git.commit(tree.decode(), document.before.commit, f"Change\n\nGatewright-Run: {RUNS[1]}\n")
    moved = at(document, 0, commits=(made, *first.commits[1:]))
    return replace(moved, objects=(*document.objects, world.git.objects[made]))


def changed(run_id: str, *changes: object) -> Tamper:
    return lambda document: replace(document, changes={**document.changes, run_id: changes})


FOLDER = Blob(mode="40000", object_id=digest("folder"))
#: What is changed, and the pointer of a fault that it must give.
TAMPERED: dict[str, tuple[Tamper, str]] = {
    "another repository": (lambda r: replace(r, repository="elsewhere"), "/repository"),
    "another branch": (lambda r: replace(r, branch="elsewhere"), "/branch"),
    "another base": (lambda r: replace(r, before=OTHER), "/before"),
    "another tree of the base": (lambda r: replace(r, before=replace(r.before, tree=OTHER.tree)), "/before"),
    "another result": (lambda r: replace(r, after=OTHER), "/after"),
    "another policy": (lambda r: replace(r, policy_sha256="b" * 64), "/positions/2/report_sha256"),
    "another order": (swapped, "/positions/0"),
    "another order of runs": (lambda r: at(r, 0, runs=r.positions[0].runs[::-1]), "/positions/0/commits"),
    "a run left out": (without_a_run, "/positions/0/commits"),
    "a run twice": (lambda r: at(r, 1, runs=r.positions[0].runs), "/positions/1/runs"),
    "an unknown run": (lambda r: at(r, 0, runs=(r.positions[0].runs[0], "run-unknown")), "/changes"),
    "another tree on the way": (lambda r: at(r, 0, tree=OTHER.tree), "/positions/0/tree"),
    "no report": (lambda r: at(r, -1, report_sha256=""), "/positions/2/outcome"),
    "a report that is not there": (lambda r: at(r, -1, report_sha256="c" * 64), "/reports"),
    "a report of another tree": (with_report(lambda p: replace(p, tree=OTHER.tree)), "/positions/2/report_sha256"),
    "a report of another queue": (with_report(lambda p: replace(p, branch="other")), "/positions/2/report_sha256"),
    "a report of another policy": (with_report(lambda p: replace(p, policy_sha256="b" * 64)), "/positions/2/report_sha256"),
    "a red report": (lambda r: at(r, -1, outcome="failed"), "/positions/2/outcome"),
    "a red report that is called green": (turned_green, "/positions/2/outcome"),
    "a command that did not run": (with_report(without_a_command), "/positions/2/outcome"),
    "a part left out": (with_report(lambda p: replace(p, parts=p.parts[1:])), "/reports"),
    "an assumption that failed": (lambda r: at(r, 1, resolved=("landed", "tests_failed")), "/positions/1/resolved"),
    "an assumption left out": (lambda r: at(r, 1, ahead=(), resolved=()), "/positions/1"),
    "a commit left out": (lambda r: at(r, 0, commits=r.positions[0].commits[1:]), "/positions/0/commits"),
    "a commit on another parent": (with_other_parent, "/positions/2/commits"),
    "a commit of another run": (of_other_run, "/positions/0/commits"),
    "the change of another run": (lambda r: changed(RUNS[0], *r.changes[RUNS[1]])(r), f"/changes/{RUNS[0]}"),
    "another change of a run ahead": (changed(RUNS[1], write("src/other.py", "x")), "/positions/0/commits"),
    "a change that conflicts": (changed(RUNS[1], write("src/kept.py", "z", before="w")), "/positions/0/commits"),
    "a folder in place of a file": (
        changed(RUNS[1], replace(write("s", "x"), new=FOLDER)),
        "/positions/0/commits",
    ),
    "a path that git has not": (changed(RUNS[1], write("src/../a", "x")), "/positions/0/commits"),
    "changes of a run that did not land": (changed("run-unknown", write("x", "x")), "/changes"),
    "an altered commit": (with_object("commit", lambda o: replace(o, data=o.data + b"\n")), "/positions"),
    "a commit that is missing": (with_object("commit", lambda _: None), "/positions"),
    "an altered tree": (with_object("tree", lambda o: replace(o, data=o.data[:-1] + b"x")), "/positions/0/commits"),
    "a tree that is missing": (with_object("tree", lambda _: None), "/positions/0/commits"),
    "no positions": (lambda r: replace(r, positions=()), "/positions"),
}


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
