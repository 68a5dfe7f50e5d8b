"""Breadth review: how much of the repository a contract opens, judged on the baseline's own tree.

Paths that mean everything by their spelling are refused earlier (``gatewright.scope``). The remaining paths are looked up: a
name is a whole directory when the baseline has such a directory, with or without a dot in its name. A directory is also opened
whole when the contract opens all its entries one by one, at least two of them directories. The same applies to the root, and
every pack refuses to open the root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright.git.changes import Node
from gatewright.git.mirror import Mirror
from gatewright.git.modes import DIRECTORY, SUBMODULE
from gatewright.git.paths import display
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.packs import PackRules

CODE = "path_too_broad"
RULE = "breadth"
#: A submodule is a whole repository, so it is treated as a directory.
DIRECTORIES = frozenset({DIRECTORY, SUBMODULE})
#: Maximum number of directories read for one contract; further ones are treated as opened whole.
MOST_LOOKS = 500


@dataclass(frozen=True)
class Opened:
    """Directories of the top level that a contract opens whole, and whether it opens everything."""

    directories: tuple[str, ...]
    everything: bool


async def judge_breadth(
    context: GateContext, mirror: Mirror, tree: str, pack: PackRules, paths: Iterable[str], repository: str
) -> None:
    """Judge the breadth of ``paths``.

    1. Compute what the paths open.
    2. Refuse what the pack refuses, unless an approval rule asks a person.

    Args:
        context: the gate context.
        mirror: mirror of the repository.
        tree: id of the baseline's tree.
        pack: rules of the contract's pack.
        paths: the contract's allowed paths.
        repository: URL of the repository.

    Raises:
        GitError: the mirror cannot be read.
    """
    report = context.report
    named = frozenset(path.removesuffix("/") for path in paths)
    opened = await look(named, mirror, tree)  # 1
    report.checked(f"{RULE}.whole_repository", "everything" if opened.everything else "a part of it")
    words = ", ".join(opened.directories) or "no whole directory of the top level"
    report.checked(f"{RULE}.top_level", f"{words} ({pack.broad_paths})")
    if opened.everything:  # 2
        _report_breadth(context, f"{RULE}.whole_repository", "the paths together are the whole repository", repository)
    elif pack.broad_paths == "refused":
        for directory in opened.directories:
            _report_breadth(context, f"{RULE}.top_level", f"all of {directory!r} is opened", repository)


async def look(named: frozenset[str], mirror: Mirror, tree: str) -> Opened:
    """Return what the normalised paths ``named`` open in ``tree``."""
    wanted = frozenset(path.encode("utf-8", "surrogatepass") for path in named)
    search = _Search(mirror, wanted, sorted(wanted))
    entries = await search.entries(tree)
    whole = {node.name: await search.is_whole(node.name, node) for node in entries}
    directories = [node.name for node in entries if node.mode in DIRECTORIES]
    broad = tuple(display(name) for name in directories if whole[name])
    everything = len(directories) > 1 and all(whole.values())
    return Opened(broad, everything)


@dataclass
class _Search:
    """Search through the trees below the contract's paths."""

    mirror: Mirror
    wanted: frozenset[bytes]
    ordered: Sequence[bytes]
    looks: int = 0

    async def is_whole(self, path: bytes, node: Node) -> bool:
        """Return whether all of ``path`` is opened: by its own name, or entry by entry."""
        if path in self.wanted:
            return True
        below = path + b"/"
        at = bisect_left(self.ordered, below)
        if node.mode != DIRECTORY or not (at < len(self.ordered) and self.ordered[at].startswith(below)):
            return False
        if self.looks >= MOST_LOOKS:
            return True
        entries = await self.entries(node.object_id)
        if sum(inner.mode in DIRECTORIES for inner in entries) < 2:
            return False
        for inner in entries:
            if not await self.is_whole(below + inner.name, inner):
                return False
        return True

    async def entries(self, tree: str) -> tuple[Node, ...]:
        """Return one level of a tree."""
        self.looks += 1
        return (await self.mirror.directories([tree]))[tree]


def _report_breadth(context: GateContext, rule: str, what: str, repository: str) -> None:
    """Add a violation; where an approval rule covers broad scopes, add a request for approval instead."""
    if context.policies.people.asks("broad_scope", repository):
        context.report.asks("broad_scope", what)
        return
    why = "that is refused, and no approval rule asks a person about it"
    how = "allow narrower paths, or have the operator add a rule of the reason broad_scope to approval_rules.json"
    context.report.violate(CODE, rule, f"{what}; {why}; {how}")
