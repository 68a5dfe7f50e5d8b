"""Check of a role's recorded calls against its transfer approval: destinations and amounts. Pure.

The records are the role's own: unrecorded calls are not seen here. A worker's reported usage is compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.models.records import CALLS, CALLS_PART, CallRecord, SentBodies

RULE = "transfers.calls"
#: Larger records are not read.
_MOST_BYTES = 64 * 1024 * 1024
#: Maximum number of reported faults per task.
_MOST_FAULTS = 20
_CALLS = JsonReader(CallRecord)


def records_in(artifacts: Iterable[Artifact]) -> Artifact | None:
    """The records of calls among the artifacts of a result or of a consultation."""
    return next((each for each in artifacts if each.name in {CALLS, CALLS_PART}), None)


def broken_by_calls(
    role: str, leave: TransferLeave | None, records: bytes | None, usage: Usage | None = None
) -> tuple[str, ...]:
    """Return descriptions of the faults in a task's records; None: it has none. ``usage`` is a worker's report.

    1. A worker that reported bytes has records.
    2. They are readable.
    3. An answered call was sent somewhere, and a replayed one was not.
    4. Without an approval nothing was sent to hosts of others. With one, each body complied with its manifest, and was sent to
       one of its destinations.
    5. No more bytes were sent than permitted, and no more than reported.
    """
    if records is None:  # 1
        reported = usage.sent_bytes if usage is not None else 0
        return (f"the {role} reported {reported} bytes that it sent, and brings no records of its calls",) if reported else ()
    if len(records) > _MOST_BYTES:
        return (f"{len(records)} bytes of records are not read",)
    try:
        calls = [_CALLS.decode(line) for line in records.splitlines()]  # 2
    except UnreadableDocumentError as error:
        return (f"the records of the {role}'s calls cannot be read: {str(error)[:200]}",)
    misplaced = (f"call {call.number}: {words}" for call in calls for words in _uncovered_call(role, leave, call))
    too_much = _too_much(leave, [sent for call in calls for sent in call.sent], usage)
    return tuple(islice(chain(misplaced, too_much), _MOST_FAULTS))


def _uncovered_call(role: str, leave: TransferLeave | None, call: CallRecord) -> Iterator[str]:
    if call.played and call.sent:  # 3
        yield "it was played, and sent all the same"
    if not call.played and call.model_used is not None and not call.sent:  # 3
        yield f"{call.model_used} answered, but no destination is recorded"
    for sent in call.sent:  # 4
        place = f"{sent.model} of {sent.provider} at {sent.endpoint}"
        if leave is None:
            if not sent.internal:
                yield f"{place}: no manifest was approved by which the {role} may send anything there"
        elif sent.manifest_sha256 != leave.manifest_sha256:
            yield f"{place}: sent by another manifest than the approved one"
        elif not any(
            (e.provider, e.endpoint, e.model) == (sent.provider, sent.endpoint, sent.model) for e in leave.destinations
        ):
            yield f"{place}: the approved manifest does not name it"


def _too_much(leave: TransferLeave | None, sent: list[SentBodies], usage: Usage | None) -> Iterator[str]:
    if any(min(each.bytes, each.bodies) < 0 for each in sent):
        yield "less than nothing was sent"
    total = sum(max(0, each.bytes) for each in sent)
    if leave is not None and total > leave.most_bytes:  # 5
        yield f"{total} bytes were sent, and {leave.most_bytes} may be"
    if leave is not None and usage is not None and total > usage.sent_bytes:  # 5
        yield f"{total} bytes were sent, and {usage.sent_bytes} were reported"
