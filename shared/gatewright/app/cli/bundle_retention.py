"""The implementation of ``gc`` and ``hold`` for a home folder or a store: bundles, holds, environments and mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gatewright.app.cli.bundle_sources import store_at, trusted_keys
from gatewright.app.cli.context import find_place
from gatewright.app.cli.output import note
from gatewright.app.cli.runs.sources import BundleSource, find_run
from gatewright.app.cli.user_git import user_name
from gatewright.app.retention.caches import Cache, CacheItem, find_caches, plan_caches, remove_caches
from gatewright.app.retention.collection import Collector
from gatewright.app.retention.holds import HoldBook
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import Item, RetentionPolicy
from gatewright.app.retention.store_collection import StoreCollector
from gatewright.app.retention.store_holds import StoreHoldBook
from gatewright.app.stack.lingering import is_kept, make_way
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import LegalHold
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.address import is_address, parse_run, parse_store
from gatewright.view.safe_text import size_words


def make_collector(policy: RetentionPolicy, store: str | None = None) -> Collector | StoreCollector:
    """Return the collector of this home folder, or of a store.

    Raises MalformedError if this host has no key to verify the bundles with.
    """
    place = find_place()
    if store is not None:
        at = store_at(parse_store(store))
        return StoreCollector(at, trusted_keys(None, place), policy, SystemClock(), user_name())
    # A new home has neither a key nor bundles. Without a key nothing verifies, so nothing is removed.
    trusted = trusted_keys(None, place) if any((place.home / "runs").glob("*")) else keyring.trusted_keys(place.home, place.key)
    return Collector(place.home, trusted, policy, SystemClock(), user_name())


def carry_out(collector: Collector | StoreCollector, plan: Sequence[Item]) -> tuple[ItemOutcome[Item], ...]:
    """Carry out the plan, signed with this host's key. Raises ConfigurationError if the key cannot be used."""
    if all(item.action == "keep" for item in plan):
        return ()
    return collector.carry_out(plan, Signer(keys.load(find_place().key)))


def plan_lines(plan: Sequence[Item]) -> list[str]:
    """Format the plan, deletions first."""
    if not plan:
        return ["there are no bundles"]
    ranked = sorted(plan, key=lambda item: item.action == "keep")
    return [f"{item.action:<6} {item.run_id:<26} {size_words(item.size):>9}  {item.why}" for item in ranked]


def closing_lines(plan: Sequence[Item], done: Sequence[ItemOutcome[Item]], *, carried_out: bool) -> list[str]:
    """Format the totals of the plan, or of its outcome."""
    going = [item for item in plan if item.action != "keep"]
    size = size_words(sum(item.size for item in going))
    if not going:
        return ["no bundle to remove"]
    if not carried_out:
        return [f"{len(going)} of {len(plan)} would go, {size}; do it with --yes"]
    failed = [each for each in done if each.code]
    freed = size_words(sum(each.item.size for each in done if not each.code))
    return [f"removed {len(done) - len(failed)}, {freed}"] + [f"left {each.item.run_id}: {each.message}" for each in failed]


def result_document(plan: Sequence[Item], done: Sequence[ItemOutcome[Item]], *, carried_out: bool) -> dict[str, Any]:
    """Build the document of ``gc --json``."""
    return {
        "carried_out": carried_out,
        "items": [{"run_id": each.run_id, "action": each.action, "why": each.why, "size": each.size} for each in plan],
        "removed": [each.item.run_id for each in done if not each.code],
        "left": [{"run_id": each.item.run_id, "code": each.code, "message": each.message} for each in done if each.code],
    }


def change_hold(wanted: str, act: Literal["place", "release"], reason: str) -> LegalHold:
    """Place or release a hold. Raises MalformedError: no such run, on hold already, not on hold."""
    import asyncio

    if is_address(wanted):
        return _change_hold_in_store(wanted, act, reason)
    place = find_place()
    book = HoldBook(place.home)
    # A hold can be released after its bundle is gone.
    held = [run_id for run_id in book.held() if act == "release" and run_id.startswith(wanted)]
    run_id = held[0] if len(held) == 1 else asyncio.run(find_run(BundleSource(place.home, lambda _: None), wanted))
    written = LegalHold(run_id=run_id, act=act, reason=reason, by=user_name(), at=timestamp(SystemClock().now()))
    book.write(written)
    return written


def _change_hold_in_store(address: str, act: Literal["place", "release"], reason: str) -> LegalHold:
    place, run_id = parse_run(address)
    written = LegalHold(run_id=run_id, act=act, reason=reason, by=user_name(), at=timestamp(SystemClock().now()))
    if not StoreHoldBook(store_at(place)).write(written) and act == "place":
        note("the store has no holds of its own: `gatewright gc` keeps the bundle, and others who may write there need not")
    return written


def list_holds(store: str | None = None) -> list[LegalHold]:
    """List the holds of this home folder, or of a store. Raises ConfigurationError, StoreError."""
    if store is not None:
        return list(StoreHoldBook(store_at(parse_store(store))).held().values())
    return list(HoldBook(find_place().home).held().values())


def hold_lines(holds: Sequence[LegalHold]) -> list[str]:
    return [f"{each.run_id}  since {each.at} by {each.by}: {each.reason}" for each in holds] or ["nothing is on hold"]


@dataclass
class CacheRound:
    """The caches of one ``gc``. ``carry_out`` fills ``removed``."""

    home: Path
    items: tuple[CacheItem, ...]
    removed: tuple[Cache, ...] = ()

    @classmethod
    def of(cls, store: str | None, days: float) -> CacheRound:
        """Plan for this home folder. The plan is empty for a ``store`` of bundles, which has no caches."""
        home = find_place().home
        found = find_caches(home) if store is None else ()
        return cls(home, plan_caches(found, days, SystemClock().now(), stack_runs=is_kept(home)))

    def carry_out(self) -> None:
        """Delete the planned caches, and first end a lingering stack. Raises UnavailableError (``home_in_use``)."""
        if any(item.action == "remove" for item in self.items):
            make_way(self.home)
        self.removed = remove_caches(self.home, self.items)

    def plan_lines(self) -> list[str]:
        ranked = sorted(self.items, key=lambda item: item.action == "keep")
        named = [(item, self._cache_name(item.cache), size_words(item.cache.size)) for item in ranked]
        return [f"{item.action:<6} {name:<26} {size:>9}  {item.cache.source}: {item.why}" for item, name, size in named]

    def closing_lines(self, *, carried_out: bool) -> list[str]:
        if not self.items:
            return []
        total = size_words(sum(item.cache.size for item in self.items))
        kept = f"environments and mirrors: {len(self.items)}, {total}"
        going = [item.cache for item in self.items if item.action == "remove"]
        if not carried_out:
            return [f"{kept}; {len(going)} would go, {size_words(sum(each.size for each in going))}"]
        in_use = len(going) - len(self.removed)
        busy = f"; {in_use} in use by another process" if in_use else ""
        return [f"{kept}; removed {len(self.removed)}, {size_words(sum(each.size for each in self.removed))}{busy}"]

    def document(self) -> dict[str, Any]:
        """Return the caches' fields of ``gc --json``."""
        caches = [
            {
                "kind": item.cache.kind,
                "path": str(item.cache.path),
                "source": item.cache.source,
                "size": item.cache.size,
                "last_used": timestamp(item.cache.last_used),
                "action": item.action,
                "why": item.why,
            }
            for item in self.items
        ]
        return {"caches": caches, "removed_caches": [str(each.path) for each in self.removed]}

    def _cache_name(self, cache: Cache) -> str:
        """Return a short but unique name: the digest of an environment, the role of a mirror."""
        inside = cache.path.relative_to(self.home)
        return f"{cache.kind} {inside.parts[0] if cache.kind == 'mirror' else inside.name[:12]}"
