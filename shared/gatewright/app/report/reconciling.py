"""The plan against the evidence, as the run's progress packet has it. It is advice; what counted was decided by the gates."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gatewright.app.report.account import MAX_TOLD_BYTES, BundleAccount
from gatewright.app.report.markup import table, tag, with_class
from gatewright.contracts import ProgressPacket, codec
from gatewright.contracts.progress import NamedPaths, Reconciliation
from gatewright.errors import MalformedError
from gatewright.evidence import layout

_STATES = {"done": "done", "untouched": "accepted, nothing of it changed", "refused": "not accepted", "open": "never answered"}
_HEADINGS = ("shard", "planned", "changed files", "what came of it")


def reconciliation_table(account: BundleAccount) -> Iterator[Element]:
    """A table of the shards and two sentences; nothing for a run that has no packet, or had no plan."""
    found = account.excerpt(layout.PROGRESS_PACKET, MAX_TOLD_BYTES)
    try:
        packet = codec.decode(found.head, ProgressPacket) if found.size and not found.left_out else None
    except MalformedError:
        return  # the verification, on top of the page, says so
    if packet is None or packet.reconciliation is None:
        return
    told = packet.reconciliation
    yield tag(
        "p", None, tag("b", None, "The plan against the evidence"), " (advice, and no gate). ", _reconciliation_words(told)
    )
    rows = ((each.task_id, _paths(each.planned), str(each.touched), _STATES[each.state]) for each in told.shards)
    yield table("work", (_HEADINGS, *rows))
    if told.more:
        yield with_class("p", "cut", f"{told.more} more shards are not shown.")


def _reconciliation_words(told: Reconciliation) -> str:
    if told.complete:
        return "Every shard is done, and all of it was tested."
    parts = [f"{sum(each.state != 'done' for each in told.shards)} of {len(told.shards)} shards are not done"]
    if told.unplanned:
        parts.append(f"{told.unplanned} changed files lie in no shard")
    if told.untested:
        parts.append("the tests that must pass did not all pass")
    return f"{'; '.join(parts)}."


def _paths(planned: NamedPaths) -> str:
    more = f" and {planned.more} more" if planned.more else ""
    return f"{', '.join(planned.paths)}{more}"
