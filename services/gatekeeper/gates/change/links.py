"""Targets of allowed symbolic links: inside the repository, not sacred, and not through a link that leads outside.

A link is resolved in the tree, never on a disk. ``..`` may stand only at the beginning of a target: after a name its meaning
depends on the kind of that name, and a later change could redirect a harmless link to the outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gatewright.git.changes import Node, TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import DIRECTORY, SYMLINK
from gatewright.git.paths import display, path_fault
from gatewright.services.gatekeeper.gates.context import ChangeContext
from gatewright.services.gatekeeper.policies.load import Policies

CODE = "symlink_escapes"
RULE = "symlink_targets"
#: Maximum chain of links (Linux: MAXSYMLINKS), and maximum bytes of a target (PATH_MAX).
MOST_LINKS = 40
LONGEST_TARGET = 4096


@dataclass
class _Tree:
    """One tree, read one directory at a time."""

    mirror: Mirror
    root: str
    known: dict[str, dict[bytes, Node]] = field(default_factory=dict)

    async def entry(self, parts: Sequence[bytes]) -> Node | None:
        """Return the entry at a path; None when there is none, or when a parent is no directory."""
        node: Node | None = Node(DIRECTORY, b"", self.root)
        for part in parts:
            if node is None or node.mode != DIRECTORY:
                return None
            if node.object_id not in self.known:
                listed = await self.mirror.directories([node.object_id])
                self.known[node.object_id] = {each.name: each for each in listed[node.object_id]}
            node = self.known[node.object_id].get(part)
        return node


async def judge_links(context: ChangeContext, changes: Sequence[TreeChange], tree: str) -> None:
    """Judge every link that is new or has a new target.

    Args:
        context: the gate context with its mirror.
        changes: the changed paths.
        tree: id of the tree that contains the links.

    Raises:
        GitError: the mirror cannot be read.
    """
    links = [change for change in changes if change.new_mode == SYMLINK]
    context.report.checked(RULE)
    if not links:
        return
    whole = _Tree(context.mirror, tree)
    targets = await context.mirror.blobs({change.new_id for change in links})
    for change in links:
        fault = await _fault(change.path, targets[change.new_id], whole, context.policies)
        if fault is not None:
            shown = display(targets[change.new_id][:200])
            context.report.violate(CODE, RULE, f"leads to {shown!r}: {fault}", change.path)


async def _fault(path: bytes, target: bytes, tree: _Tree, policies: Policies) -> str | None:
    """Return why a link at ``path`` may not point to ``target``; None when it may."""
    here = path.split(b"/")[:-1]
    for _ in range(MOST_LINKS):
        place = _resolve_target(here, target)
        if isinstance(place, str):
            return place
        joined = b"/".join(place)
        if place and path_fault(joined) is not None:
            return "inside a git directory"
        if place and any(kind.name in {"sacred", "ci"} for kind in policies.path_classes(joined)):
            return "a sacred path, or the pipeline"
        passed = await _first_link(place, tree)
        if passed is None:
            return None
        length, node = passed
        rest = place[length:]
        here = place[: length - 1]
        further = (await tree.mirror.blobs([node.object_id]))[node.object_id]
        target = b"/".join([further.rstrip(b"/"), *rest]) if rest else further
    return "a circle of links"


def _resolve_target(here: list[bytes], target: bytes) -> list[bytes] | str:
    """Resolve ``target`` for a link in the directory ``here``. Return the path, or the fault as text."""
    if not target or len(target) > LONGEST_TARGET or b"\0" in target:
        return "no path"
    if target.startswith(b"/"):
        return "outside the repository"
    if b"\\" in target:
        return "a backslash, which Windows takes for /"
    parts = [part for part in target.split(b"/") if part not in {b"", b"."}]
    up = 0
    while up < len(parts) and parts[up] == b"..":
        up += 1
    if b".." in parts[up:]:
        return "'..' after a name"
    if up > len(here):
        return "outside the repository"
    return [*here[: len(here) - up], *parts[up:]]


async def _first_link(place: list[bytes], tree: _Tree) -> tuple[int, Node] | None:
    """Return the first part of the path that is itself a link: its depth and the link."""
    for length in range(1, len(place) + 1):
        node = await tree.entry(place[:length])
        if node is None:
            return None
        if node.mode == SYMLINK:
            return length, node
    return None
