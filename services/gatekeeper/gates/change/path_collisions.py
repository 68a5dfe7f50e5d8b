"""Path collisions: refuses a new path that some file system treats as equal to another path of the tree.

Checked out on a system that ignores case or normalises names, such a tree has one file with the content of another. Collisions
that the baseline already has, and that the change does not extend, are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gatewright.git.changes import Node, TreeChange
from gatewright.git.modes import ABSENT, DIRECTORY
from gatewright.git.paths import display, fold_component
from gatewright.services.gatekeeper.gates.context import ChangeContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder

CODE = "path_collision"
RULE = "path_collisions"


@dataclass(slots=True)
class _Level:
    """All directories of the new tree that fold to one name, and the new paths below them.

    ``new`` and ``old`` are their tree ids by exact path, in the new tree and in the baseline.
    """

    new: dict[bytes, str]
    old: dict[bytes, str]
    paths: list[tuple[bytes, ...]] = field(default_factory=list)


async def judge_collisions(context: ChangeContext, changes: Sequence[TreeChange], baseline: str, tree: str) -> None:
    """Compare each added path with the other entries of its directories, level by level from the root.

    The cost depends on the directories of the new paths, not on the repository.

    Args:
        context: the gate context with its mirror.
        changes: the changed paths.
        baseline: tree id before the change.
        tree: tree id after the change.

    Raises:
        GitError: the mirror cannot be read.
    """
    context.report.checked(RULE)
    added = [tuple(change.path.split(b"/")) for change in changes if change.old_mode == ABSENT]
    levels: dict[tuple[str, ...], _Level] = {(): _Level({b"": tree}, {b"": baseline}, added)} if added else {}
    reported: set[bytes] = set()
    while levels:
        wanted = {tree_id for level in levels.values() for tree_id in (*level.new.values(), *level.old.values())}
        listed = await context.mirror.directories(wanted)
        below: dict[tuple[str, ...], _Level] = {}
        for prefix, level in levels.items():
            _judge_level(prefix, level, listed, below, reported, context.report)
        levels = below


def _judge_level(
    prefix: tuple[str, ...],
    level: _Level,
    listed: Mapping[str, tuple[Node, ...]],
    below: dict[tuple[str, ...], _Level],
    reported: set[bytes],
    report: GateReportBuilder,
) -> None:
    depth = len(prefix)
    groups = _groups(level.new, listed)
    old = {_join(where, node.name): node for where, tree_id in level.old.items() for node in listed[tree_id]}
    for parts in level.paths:
        name, path = fold_component(parts[depth]), b"/".join(parts[: depth + 1])
        same = groups[name]
        if path not in old and path not in reported:
            other = next((each for each in same if each != path), None)
            if other is not None:
                reported.add(path)
                report.violate(CODE, RULE, f"some file systems take it for {display(other)!r}", path)
        if len(parts) > depth + 1:
            key = (*prefix, name)
            if key not in below:
                inner = {each: node.object_id for each, node in same.items() if node.mode == DIRECTORY}
                before = {each: old[each].object_id for each in inner if each in old and old[each].mode == DIRECTORY}
                below[key] = _Level(inner, before)
            below[key].paths.append(parts)


def _groups(directories: Mapping[bytes, str], listed: Mapping[str, tuple[Node, ...]]) -> Mapping[str, dict[bytes, Node]]:
    """Group the entries of ``directories`` by folded name: exact path -> entry."""
    groups: defaultdict[str, dict[bytes, Node]] = defaultdict(dict)
    for where, tree_id in directories.items():
        for node in listed[tree_id]:
            groups[fold_component(node.name)][_join(where, node.name)] = node
    return groups


def _join(where: bytes, name: bytes) -> bytes:
    return where + b"/" + name if where else name


def owners(changes: Mapping[str, Iterable[TreeChange]]) -> dict[bytes, list[tuple[str, TreeChange]]]:
    """Return each changed path with the tasks that changed it, and their change. ``changes`` is by task id."""
    owned: defaultdict[bytes, list[tuple[str, TreeChange]]] = defaultdict(list)
    for task_id, made in changes.items():
        for change in made:
            owned[change.path].append((task_id, change))
    return dict(owned)
