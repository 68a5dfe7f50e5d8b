"""The receipt of a landing, and its check, which derives order and trees again from the changes of the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gatewright.contracts.queue_policy import Outcome
from gatewright.contracts.vocabulary import Document, NonEmpty, ObjectId, Positive, RunId, Sha256
from gatewright.errors import Fault, MalformedError
from gatewright.queue.composition import Change
from gatewright.queue.state import Position, Queue, Tip

#: Computes the tree of a base tree with changes on top; empty on a conflict.
TreeOf = Callable[[str, Sequence[Change]], str]


class ReceiptPosition(Document, frozen=True):
    """A position as it landed.

    It was formed on ``base``, with the assumption that the runs ``ahead`` land. ``resolved``: how each of them ended.
    ``outcome`` is ``untested`` where no test of this tree had ended. The last position of a receipt has ``passed``.
    """

    number: Positive
    base: Tip
    ahead: tuple[RunId, ...]
    resolved: tuple[NonEmpty, ...]
    runs: tuple[RunId, ...]
    commits: tuple[ObjectId, ...]
    tree: ObjectId
    outcome: Outcome | Literal["untested"]
    report_sha256: str = ""


class QueueReceipt(Document, frozen=True):
    """The result of one push of a queue. ``landing``: number of the push in this queue, from 1."""

    repository: NonEmpty
    branch: NonEmpty
    policy_sha256: Sha256
    landing: Positive
    before: Tip
    after: Tip
    positions: tuple[ReceiptPosition, ...]


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Facts of a test report: tree, policy, completeness and outcome."""

    tree: str
    policy_sha256: str
    passed: bool


@dataclass(frozen=True, slots=True)
class LandingFacts:
    """The checker's own facts: branch before and after, the changes of each run, and the reports by digest."""

    repository: str
    branch: str
    before: Tip
    after: Tip
    changes: Mapping[str, tuple[Change, ...]]
    reports: Mapping[str, ReportFacts]


def receipt(queue: Queue, number: int) -> QueueReceipt:
    """Return the receipt of a position, from the queue in which it is landing.

    Raises:
        MalformedError: ``bad_event``, the position is not landing.
    """
    landing = queue.until(number)
    if not landing or queue.landing != number:
        raise MalformedError(f"position {number} is not landing", code="bad_event")
    last = landing[-1]
    return QueueReceipt(
        repository=queue.repository,
        branch=queue.branch,
        policy_sha256=queue.policy_sha256,
        landing=queue.landings + 1,
        before=queue.base,
        after=Tip(commit=last.commits[-1], tree=last.tree),
        positions=tuple(_receipt_position(queue, position) for position in landing),
    )


def _receipt_position(queue: Queue, position: Position) -> ReceiptPosition:
    result = queue.results.get(position.tree)
    return ReceiptPosition(
        number=position.number,
        base=position.base,
        ahead=position.ahead,
        resolved=tuple(queue.ended.get(run_id, "landed") for run_id in position.ahead),
        runs=position.runs,
        commits=position.commits,
        tree=position.tree,
        outcome=result.outcome if result is not None else "untested",
        report_sha256=result.report_sha256 if result is not None else "",
    )


def check_receipt(document: QueueReceipt, facts: LandingFacts, tree_of: TreeOf) -> tuple[Fault, ...]:
    """Return the faults of a receipt; none when it proves the landing.

    1. It is about this repository and branch, and about this move of the branch.
    2. Its positions are in order, each on top of the ones before it, with every assumption resolved as landed.
    3. Every run is in it once, and is known; ``tree_of`` gives the tree of each position again from the runs' changes.
    4. The last position is what landed, and a full report of exactly its tree and of this policy passed.
    """
    return (
        *_check_place(document, facts),
        *_check_order(document),
        *_check_trees(document, facts, tree_of),
        *_check_test(document, facts),
    )


def _receipt_fault(pointer: str, message: str) -> Fault:
    return Fault(pointer, "receipt_contradicts", message)


def _check_place(document: QueueReceipt, facts: LandingFacts) -> Iterator[Fault]:
    for name in ("repository", "branch", "before", "after"):
        if getattr(document, name) != getattr(facts, name):
            yield _receipt_fault(f"/{name}", f"the receipt is about another {name}")


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
        seen.extend(position.runs)
        number = position.number


def _check_trees(document: QueueReceipt, facts: LandingFacts, tree_of: TreeOf) -> Iterator[Fault]:
    tree = document.before.tree
    runs: set[str] = set()
    for index, position in enumerate(document.positions):
        where = f"/positions/{index}"
        if not position.runs or len(position.commits) != len(position.runs):
            yield _receipt_fault(f"{where}/commits", "there is one commit for each run")
        for run_id in position.runs:
            if run_id in runs or run_id not in facts.changes:
                yield _receipt_fault(f"{where}/runs", f"{run_id} is in the receipt twice, or unknown")
            runs.add(run_id)
            tree = tree_of(tree, facts.changes.get(run_id, ()))
        if tree != position.tree:
            yield _receipt_fault(f"{where}/tree", "the changes of the runs give another tree")


def _check_test(document: QueueReceipt, facts: LandingFacts) -> Iterator[Fault]:
    last = document.positions[-1] if document.positions else None
    if last is None or not last.commits or Tip(commit=last.commits[-1], tree=last.tree) != document.after:
        yield _receipt_fault("/after", "the last position is not what landed")
        return
    report = facts.reports.get(last.report_sha256)
    expected = ReportFacts(last.tree, document.policy_sha256, passed=True)
    if last.outcome != "passed" or report != expected:
        yield _receipt_fault("/positions", "no full report of exactly this tree and policy passed")
