"""The check of a landing's receipt, by hashing alone: order, trees and commits follow again from the changes of the runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.contracts.queue_receipt import Blob, Change, PositionReport, QueueReceipt, ReceiptPosition, Tip
from gatewright.errors import Fault
from gatewright.queue.receipt import report_digest
from gatewright.queue.witness import Witness, WitnessError
from gatewright.rules.reports.position import outcome_of

_TRAILER = b"Gatewright-Run:"


@dataclass(frozen=True, slots=True)
class LandingFacts:
    """What the run of a bundle knows of its own landing.

    ``commit`` and ``tree`` are those of the run, ``previous`` is the branch before the push. ``commands``: the argv of each
    acceptance command that must pass. An id of a blob in ``changes`` is empty where it is unknown: if only the mode changed.
    """

    run_id: str
    repository: str
    branch: str
    commit: str
    tree: str
    previous: str
    changes: tuple[Change, ...]
    commands: frozenset[tuple[str, ...]] = frozenset()


def check_receipt(document: QueueReceipt, facts: LandingFacts) -> tuple[Fault, ...]:
    """Return the faults of a receipt; none when it proves the landing of a run.

    1. It is about this repository, branch and push, and about this commit, tree and change of the run.
    2. Its positions are in order, each on top of those before it, with every assumption resolved as landed.
    3. It has each run once, with its change. The changes give the tree of each commit again, so a commit changes paths of its
       run only. Each commit has the one before it as its parent, and names its run.
    4. Each report is about its position and this policy, and its outcome follows from its commands.
    5. The last position is what landed, and passed. Its tests include the run's own commands, unless the branch had the change.
    """
    if not document.positions:
        return (_receipt_fault("/positions", "nothing landed"),)
    return (
        *_check_place(document, facts),
        *_check_order(document),
        *_check_chain(document, facts),
        *_check_reports(document),
        *_check_last(document, facts),
    )


def _receipt_fault(pointer: str, message: str) -> Fault:
    return Fault(pointer, "receipt_contradicts", message)


def _check_place(document: QueueReceipt, facts: LandingFacts) -> Iterator[Fault]:
    for name, recorded, known in (
        ("repository", document.repository, facts.repository),
        ("branch", document.branch, facts.branch),
        ("before", document.before.commit, facts.previous),
    ):
        if recorded != known:
            yield _receipt_fault(
                f"/{name}", f"the receipt is about another landing: {name} is {recorded}, and {known} was recorded"
            )
    if document.commits().get(facts.run_id) != facts.commit:
        yield _receipt_fault("/positions", f"the receipt does not name {facts.commit} as the commit of {facts.run_id}")
    if _known_ids(document.changes.get(facts.run_id, ())) != _known_ids(facts.changes):
        yield _receipt_fault(f"/changes/{facts.run_id}", "the receipt has another change of this run")


def _known_ids(changes: tuple[Change, ...]) -> dict[str, tuple[Blob | None, Blob | None]]:
    """Return the blobs by path, without the ids of a blob whose mode alone changed."""
    found: dict[str, tuple[Blob | None, Blob | None]] = {}
    for change in changes:
        old, new = change.old, change.new
        if old is not None and new is not None and old.object_id == new.object_id:
            old, new = replace(old, object_id=""), replace(new, object_id="")
        found[change.path] = (old, new)
    return found


def _check_order(document: QueueReceipt) -> Iterator[Fault]:
    seen: list[str] = []
    number = 0
    for index, position in enumerate(document.positions):
        where = f"/positions/{index}"
        earlier = len(position.ahead) - len(seen)
        on_base = position.base == document.before
        if position.number <= number or earlier < 0 or list(position.ahead[earlier:]) != seen or (on_base and earlier):
            yield _receipt_fault(where, "the position is not on top of those before it")
        if len(position.resolved) != len(position.ahead) or set(position.resolved) - {"landed"}:
            yield _receipt_fault(f"{where}/resolved", "a run that was assumed to land did not")
        if not position.runs or len(position.commits) != len(position.runs):
            yield _receipt_fault(f"{where}/commits", "there is one commit for each run")
        if not set(position.runs).isdisjoint(seen) or len(set(position.runs)) != len(position.runs):
            yield _receipt_fault(f"{where}/runs", "a run is in the receipt twice")
        seen.extend(position.runs)
        number = position.number
    if set(seen) != document.changes.keys():
        yield _receipt_fault("/changes", "the receipt has the changes of other runs than those of its positions")


def _check_chain(document: QueueReceipt, facts: LandingFacts) -> Iterator[Fault]:
    witness = Witness(document.objects, len(document.before.tree))
    tip = document.before
    where = "/before"
    try:
        if witness.commit(tip.commit).tree != tip.tree:
            yield _receipt_fault(where, f"the commit {tip.commit} has another tree")
        for index, position in enumerate(document.positions):
            for run_id, commit in zip(position.runs, position.commits, strict=False):
                where = f"/positions/{index}/commits"
                tree = witness.put(tip.tree, document.changes.get(run_id, ()))
                found = witness.commit(commit)
                if found.parents != (tip.commit,) or found.tree != tree:
                    yield _receipt_fault(where, f"{commit} is not the change of {run_id} on top of {tip.commit}")
                if _runs_named(found.message) != [run_id.encode()]:
                    yield _receipt_fault(where, f"{commit} does not name {run_id}")
                if run_id == facts.run_id and tree != facts.tree:
                    yield _receipt_fault(where, f"the change of {run_id} gives the tree {tree}, and {facts.tree} was recorded")
                tip = Tip(commit=commit, tree=tree)
            if tip.tree != position.tree:
                yield _receipt_fault(f"/positions/{index}/tree", "the changes of the runs give another tree")
    except WitnessError as error:
        yield _receipt_fault(where, error.message)
        return
    if tip != document.after:
        yield _receipt_fault("/after", "the last commit is not what landed")


def _runs_named(message: bytes) -> list[bytes]:
    return [line.removeprefix(_TRAILER).strip() for line in message.split(b"\n") if line.startswith(_TRAILER)]


def _check_reports(document: QueueReceipt) -> Iterator[Fault]:
    known = {report_digest(report): report for report in document.reports}
    if known.keys() != {each.report_sha256 for each in document.positions if each.report_sha256}:
        yield _receipt_fault("/reports", "the receipt does not have just the reports that its positions name")
    for index, position in enumerate(document.positions):
        report = known.get(position.report_sha256)
        if report is None and (position.outcome != "untested" or position.report_sha256):
            yield _receipt_fault(f"/positions/{index}/outcome", f"no report shows that the position is {position.outcome}")
        elif report is not None and not _is_about(report, position, document):
            yield _receipt_fault(f"/positions/{index}/report_sha256", "the report is about another tree, policy or queue")
        elif report is not None and (position.outcome, report.failed) != outcome_of(position.tree, report.parts):
            yield _receipt_fault(f"/positions/{index}/outcome", "the outcome does not follow from the commands of the report")


def _is_about(report: PositionReport, position: ReceiptPosition, document: QueueReceipt) -> bool:
    place = (document.repository, document.branch, document.policy_sha256, position.tree, position.outcome)
    return (report.repository, report.branch, report.policy_sha256, report.tree, report.outcome) == place


def _check_last(document: QueueReceipt, facts: LandingFacts) -> Iterator[Fault]:
    last = document.positions[-1]
    report = next((each for each in document.reports if report_digest(each) == last.report_sha256), None)
    if last.outcome != "passed" or report is None:
        yield _receipt_fault(f"/positions/{len(document.positions) - 1}/outcome", "no full report of the landed tree passed")
        return
    tested = {command.argv for part in report.parts for command in part.commands if command.must_pass}
    if not facts.commands <= tested and not _had_change(document, facts):
        yield _receipt_fault("/reports", f"an acceptance command of {facts.run_id} was not run on the landed tree")


def _had_change(document: QueueReceipt, facts: LandingFacts) -> bool:
    """Return whether the commit of the run has the tree of its parent. Such a tree is not tested again."""
    witness = Witness(document.objects, len(document.before.tree))
    try:
        (parent,) = witness.commit(facts.commit).parents
        return witness.commit(parent).tree == facts.tree
    except (WitnessError, ValueError):
        return False
