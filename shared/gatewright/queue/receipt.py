"""The receipt of a landing: everything that proves it without a repository. ``rules/reports/receipt.py`` checks it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.queue_receipt import GitObject, PositionReport, QueueReceipt, ReceiptPosition, Tip
from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.queue.state import Position, Queue, runs_in
from gatewright.queue.witness import Witness

#: Maximum size of a receipt in bytes.
MOST_BYTES = 8 << 20


def receipt(queue: Queue, number: int) -> QueueReceipt:
    """Return the receipt of a position, from the queue in which it is landing. Reports and objects are still missing.

    Raises:
        MalformedError: ``bad_event``, the position is not landing.
    """
    landing = queue.until(number)
    if not landing or queue.landing != number:
        raise MalformedError(f"position {number} is not landing", code="bad_event")
    last = landing[-1]
    return QueueReceipt(
        repository=queue.identity,
        branch=queue.branch,
        policy_sha256=queue.policy_sha256,
        landing=queue.landings + 1,
        before=queue.base,
        after=Tip(commit=last.commits[-1], tree=last.tree),
        positions=tuple(_receipt_position(queue, position) for position in landing),
        changes={run_id: queue.entries[run_id].entry.changes for run_id in runs_in(landing)},
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


def missing_objects(document: QueueReceipt, have: Iterable[GitObject]) -> set[str]:
    """Return the ids of the git objects to fetch next; none when ``have`` is complete.

    An object that is missing hides those below it. So repeat this with every object fetched so far.
    """
    paths = {change.path for changes in document.changes.values() for change in changes}
    commits = {document.before.commit, *document.commits().values()}
    return Witness(have, len(document.before.tree)).missing(commits, document.before.tree, paths)


def report_digest(report: PositionReport) -> str:
    """Return the sha256 of a report, as the queue records it."""
    return hashlib.sha256(codec.encode(report)).hexdigest()


def receipt_bytes(document: QueueReceipt, reports: Iterable[PositionReport], objects: Iterable[GitObject]) -> bytes:
    """Return the artifact of a receipt, with its reports and objects.

    Raises:
        MalformedError: a report or an object is missing (``receipt_missing``), or the receipt is too large
            (``receipt_too_large``).
    """
    wanted = dict.fromkeys(each.report_sha256 for each in document.positions if each.report_sha256)
    known = {report_digest(report): report for report in reports}
    objects = sorted(set(objects), key=lambda each: (each.kind, each.data))
    if (lost := missing_objects(document, objects)) or (lost := wanted.keys() - known.keys()):
        raise MalformedError(f"the receipt lacks {len(lost)} parts, the first is {min(lost)}", code="receipt_missing")
    data = codec.encode(replace(document, reports=tuple(known[each] for each in wanted), objects=tuple(objects)))
    if len(data) > MOST_BYTES:
        raise MalformedError(f"the receipt has {len(data)} bytes, at most {MOST_BYTES} are allowed", code="receipt_too_large")
    return data


def read_receipt(data: bytes) -> QueueReceipt:
    """Return a receipt.

    Raises:
        MalformedError: it is too large (``receipt_too_large``), or no receipt in canonical form (``malformed``).
    """
    if len(data) > MOST_BYTES:
        raise MalformedError(f"a receipt has at most {MOST_BYTES} bytes", code="receipt_too_large")
    try:
        document = read_json(data, QueueReceipt)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not a receipt of a merge queue: {error}") from error
    if codec.encode(document) != data:
        raise MalformedError("the receipt is not in canonical form")
    return document
