"""The choice of bundles to remove, with reasons, made before any change. Pure.

A rule that keeps a bundle takes precedence over every rule that would remove it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from gatewright.app.retention.inventory import InventoryItem
from gatewright.contracts import LegalHold

#: ``finish``: removal was interrupted after the tombstone was set; complete it.
Action = Literal["keep", "prune", "finish"]


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """``keep_last`` sealed bundles stay at any age; the others for so many days after the end of their run."""

    keep_last: int = 20
    keep_days: float = 30
    keep_failed_days: float = 90


@dataclass(frozen=True, slots=True)
class Item:
    """The planned action for one entry; ``size`` is in bytes."""

    run_id: str
    action: Action
    why: str
    size: int


#: Returns why a sealed bundle fails verification; empty if it passes.
Check = Callable[[InventoryItem], str]


def make_plan(
    entries: Sequence[InventoryItem], held: Mapping[str, LegalHold], policy: RetentionPolicy, now: datetime, check: Check
) -> tuple[Item, ...]:
    """Return one item per entry, in the order of ``entries``; ``check`` is called only for bundles to remove."""
    sealed = sorted((entry for entry in entries if entry.state == "sealed"), key=_end_of, reverse=True)
    newest = {entry.run_id for entry in sealed[: policy.keep_last]}
    items = []
    for entry in entries:
        action, why = _judge(entry, held, newest, policy, now)
        if action != "keep" and (fault := check(entry)):
            action, why = "keep", f"it does not verify ({fault}): look at it before anybody removes it"
        items.append(Item(entry.run_id, action, why, entry.size))
    return tuple(items)


def _judge(
    entry: InventoryItem, held: Mapping[str, LegalHold], newest: set[str], policy: RetentionPolicy, now: datetime
) -> tuple[Action, str]:
    hold = held.get(entry.run_id)
    if hold is not None:
        return "keep", f"on hold since {hold.at} by {hold.by}: {hold.reason}"
    match entry.state:
        case "open" | "odd":
            return "keep", entry.note
        case "pruned":
            return "keep", "pruned; its tombstone stays"
        case "half_pruned":
            return "finish", "its tombstone is set, and removing was cut short"
    days = policy.keep_days if entry.status == "SUCCESS" else policy.keep_failed_days
    age = (now - _end_of(entry)).total_seconds() / 86400
    if entry.run_id in newest:
        return "keep", f"one of the last {policy.keep_last}"
    if age < days:
        return "keep", f"{age:.1f} days old; {entry.status} bundles are kept for {days:g}"
    return "prune", f"{entry.status}, {age:.1f} days old; kept for {days:g} days and not one of the last {policy.keep_last}"


def _end_of(entry: InventoryItem) -> datetime:
    return entry.finished_at or datetime.max.replace(tzinfo=UTC)
