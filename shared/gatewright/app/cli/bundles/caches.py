"""The part of ``gatewright gc`` about environments and mirrors: the plan, carrying it out, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.app.cli.context import find_place
from gatewright.app.retention.caches import Cache, CacheItem, find_caches, plan_caches, remove_caches
from gatewright.app.stack.lingering import is_kept, make_way
from gatewright.clock import SystemClock, timestamp
from gatewright.view.safe_text import size_words


@dataclass
class CacheRound:
    """One use of ``gc``; ``removed`` is filled by ``carry_out``."""

    home: Path
    items: tuple[CacheItem, ...]
    removed: tuple[Cache, ...] = ()

    @classmethod
    def of(cls, store: str | None, days: float) -> CacheRound:
        """The plan for this home folder; an empty one for a ``store`` of bundles, which has no caches."""
        home = find_place().home
        found = find_caches(home) if store is None else ()
        return cls(home, plan_caches(found, days, SystemClock().now(), stack_runs=is_kept(home)))

    def carry_out(self) -> None:
        """End a stack that lingers, if anything goes. Raises UnavailableError (``home_in_use``) where a command uses one."""
        if any(item.action == "remove" for item in self.items):
            make_way(self.home)
        self.removed = remove_caches(self.home, self.items)

    def plan_lines(self) -> list[str]:
        ranked = sorted(self.items, key=lambda item: item.action == "keep")
        return [
            f"{item.action:<6} {self._name(item.cache):<26} {size_words(item.cache.size):>9}  {item.cache.source}: {item.why}"
            for item in ranked
        ]

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
        """Fields of ``gc --json``."""
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

    def _name(self, cache: Cache) -> str:
        """Short and still to be told apart: an environment by its digest, a mirror by the role that has it."""
        inside = cache.path.relative_to(self.home)
        return f"{cache.kind} {inside.parts[0] if cache.kind == 'mirror' else inside.name[:12]}"
