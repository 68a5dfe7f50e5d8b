"""The plan against the evidence, as the run's progress packet has it. It is advice; what counted was decided by the gates."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gatewright.app.report.account import MAX_READ_BYTES, BundleAccount
from gatewright.app.report.markup import table, tag, with_class
from gatewright.contracts import ProgressPacket, codec
from gatewright.contracts.progress import NamedPaths, Reconciliation
from gatewright.errors import MalformedError
from gatewright.evidence import layout

_STATES = {"done": "done", "untouched": "accepted, nothing of it changed", "refused": "not accepted", "open": "never answered"}
_HEADINGS = ("shard", "planned", "changed files", "result")


def reconciliation_table(account: BundleAccount) -> Iterator[Element]:
    """Yield a table of the shards and two sentences; nothing for a run without a packet or a plan."""
    found = account.excerpt(layout.PROGRESS_PACKET, MAX_READ_BYTES)
    try:
        packet = codec.decode(found.head, ProgressPacket) if found.size and not found.left_out else None
    except MalformedError:
        return  # the verification at the top of the page reports it
    if packet is None or packet.reconciliation is None:
        return
    result = packet.reconciliation
    yield tag(
        "p", None, tag("b", None, "The plan against the evidence"), " (advice, and no gate). ", _reconciliation_words(result)
    )
    rows = ((each.task_id, _paths(each.planned), str(each.touched), _STATES[each.state]) for each in result.shards)
    yield table("work", (_HEADINGS, *rows))
    if result.more:
        yield with_class("p", "cut", f"{result.more} more shards are not shown.")


def _reconciliation_words(result: Reconciliation) -> str:
    if result.complete:
        return "Every shard is done, and all of it was tested."
    parts = [f"{sum(each.state != 'done' for each in result.shards)} of {len(result.shards)} shards are not done"]
    if result.unplanned:
        parts.append(f"{result.unplanned} changed files lie in no shard")
    if result.untested:
        parts.append("the tests that must pass did not all pass")
    return f"{'; '.join(parts)}."


def _paths(planned: NamedPaths) -> str:
    more = f" and {planned.more} more" if planned.more else ""
    return f"{', '.join(planned.paths)}{more}"
