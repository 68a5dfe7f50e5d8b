"""Splits allowed paths into groups that share no file and hold about the same number of files. Pure and deterministic.

1. Every allowed path is a unit; one below another is dropped.
2. Terminal units (dependency manifests, lock files, migrations) form a group of their own.
3. The other units go, largest first, each to the group with the fewest files.
4. While there are too few groups, or one holds a quarter more than its share, a directory is replaced by its children and
   step 2 is done again.
5. Paths without a file at the baseline go with the smallest group.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatewright import scope
from gatewright.errors import ScopeError

#: No directory is split when there would be more paths than this in the plan.
MAX_UNITS = 4096
MAX_SPLITS = 64
#: A group may hold this much of its fair share, and one file more.
_TOLERANCE = 1.25

#: What other files depend on, by the name of the file or of a directory above it, in lower case.
_TERMINAL_FILES = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", "pipfile", "pipfile.lock", "poetry.lock", "uv.lock", "pdm.lock"}
    | {"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "cargo.toml", "cargo.lock"}
    | {"go.mod", "go.sum", "gemfile", "gemfile.lock", "composer.json", "composer.lock", "pom.xml", "build.gradle"}
)
_TERMINAL_DIRECTORIES = frozenset({"migrations"})


@dataclass(frozen=True, slots=True)
class Group:
    """Paths of one shard, sorted; ``size`` is the number of files below them.

    ``terminal`` ones are done last, ``broad`` ones alone.
    """

    paths: tuple[str, ...]
    size: int
    terminal: bool = False
    broad: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """An allowed path and the files below it: ``files[start:stop]``."""

    path: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def terminal(self) -> bool:
        *parents, name = self.path.lower().split("/")
        requirements = name.startswith("requirements") and name.endswith((".txt", ".lock", ".in"))
        return name in _TERMINAL_FILES or requirements or not _TERMINAL_DIRECTORIES.isdisjoint([*parents, name])


def partition(files: Sequence[bytes], allowed: Sequence[str], count: int) -> tuple[Group, ...]:
    """At most ``count`` groups, the terminal one last, the others by their first path.

    ``files`` are paths of the baseline, ``allowed`` paths that ``scope.check_allowed_path`` let through. The groups cover what
    ``allowed`` covers, except that nothing new can be made directly in a directory that was split.
    """
    tree, outermost = sorted(files), sorted(_outermost(allowed))
    found = [_Unit(path, *_span(tree, path)) for path in outermost]
    units = [unit for unit in found if unit.size]
    for _ in range(MAX_SPLITS):
        split = _next_split(tree, units, count)
        if split is None:
            break
        unit, children = split
        units = [other for other in units if other is not unit] + children
    terminal = [unit for unit in units if unit.terminal]
    groups = _group_units(units, count) + ([terminal] if terminal else [])
    return _name_groups(groups, [unit.path for unit in found if not unit.size])


def _outermost(allowed: Sequence[str]) -> Iterator[str]:
    """Those of ``allowed`` that lie below no other. With the separator lowest, what lies below a path comes right after it."""
    last: tuple[str, ...] = ()
    for parts in sorted(tuple(path.split("/")) for path in set(allowed)):
        if not last or parts[: len(last)] != last:
            last = parts
            yield "/".join(parts)


def _goal(units: Sequence[_Unit], count: int) -> int:
    """How many groups there may be beside the terminal one."""
    return count - any(unit.terminal for unit in units)


def _group_units(units: Sequence[_Unit], count: int) -> list[list[_Unit]]:
    """The units that are not terminal, in groups of about the same load."""
    others = [unit for unit in units if not unit.terminal]
    room = min(_goal(units, count), len(others))
    groups: list[list[_Unit]] = [[] for _ in range(room)]
    loads = [(0, number) for number in range(room)]
    for unit in sorted(others, key=_largest_first):
        load, number = heapq.heappop(loads)
        groups[number].append(unit)
        heapq.heappush(loads, (load + unit.size, number))
    return groups


def _next_split(tree: Sequence[bytes], units: Sequence[_Unit], count: int) -> tuple[_Unit, list[_Unit]] | None:
    """The directory to split next, and its children; None when the groups are fair or nothing can be split."""
    groups = _group_units(units, count)
    heaviest = max(groups, key=_total_size, default=[])
    if len(groups) < _goal(units, count):
        candidates: Sequence[_Unit] = units
    elif groups and _total_size(heaviest) > 1 + _TOLERANCE * sum(map(_total_size, groups)) / len(groups):
        candidates = heaviest
    else:
        return None
    for unit in sorted(candidates, key=_largest_first):
        children = _children(tree, unit) if unit.size > 1 and not unit.terminal else None
        if children is not None and len(units) + len(children) <= MAX_UNITS:
            return unit, children
    return None


def _largest_first(unit: _Unit) -> tuple[int, str]:
    return -unit.size, unit.path


def _children(tree: Sequence[bytes], unit: _Unit) -> list[_Unit] | None:
    """What lies directly in a directory; None for a file, and where a name is none that a contract may hold."""
    prefix = unit.path.encode() + b"/"
    found: list[_Unit] = []
    at = unit.start
    while at < unit.stop:
        rest = tree[at].removeprefix(prefix)
        if len(rest) == len(tree[at]):
            return None
        try:
            path = scope.check_allowed_path(f"{unit.path}/{rest.partition(b'/')[0].decode()}")
        except (ScopeError, UnicodeDecodeError):
            return None
        found.append(_Unit(path, *_span(tree, path)))
        at = max(at + 1, found[-1].stop)
    return found


def _span(tree: Sequence[bytes], path: str) -> tuple[int, int]:
    """Where in the sorted ``tree`` the files of ``path`` stand: itself, or all below it."""
    exact = path.encode()
    start = bisect_left(tree, exact)
    if start < len(tree) and tree[start] == exact:
        return start, start + 1
    # "0" comes next after "/".
    return bisect_left(tree, exact + b"/"), bisect_left(tree, exact + b"0")


def _total_size(group: Sequence[_Unit]) -> int:
    return sum(unit.size for unit in group)


def _name_groups(groups: Sequence[Sequence[_Unit]], empty: Sequence[str]) -> tuple[Group, ...]:
    if not groups:
        return (Group(tuple(sorted(empty)), 0),)
    smallest = min(range(len(groups)), key=lambda number: (_total_size(groups[number]), number))
    made = [
        Group(
            tuple(sorted([unit.path for unit in group] + (list(empty) if number == smallest else []))),
            _total_size(group),
            terminal=all(unit.terminal for unit in group),
        )
        for number, group in enumerate(groups)
    ]
    return tuple(sorted(made, key=lambda group: (group.terminal, group.paths)))
