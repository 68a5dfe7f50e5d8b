"""Growth of each file by a change, in bytes, without former content. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from gatewright.git.changes import TreeChange
from gatewright.git.modes import REGULAR


def file_growth(changes: Sequence[TreeChange], sizes: Mapping[str, int]) -> dict[bytes, int]:
    """Return by path the size of each written file minus the size of the file that it replaces.

    A new file replaces a removed one of the same content, or else one of the same name in another folder. Each file is replaced
    once.

    Args:
        changes: the changed paths.
        sizes: sizes of contents by object id.
    """
    gone = [change for change in changes if change.old_mode in REGULAR and change.new_mode not in REGULAR]
    written = [change for change in changes if change.new_mode in REGULAR and change.new_id != change.old_id]
    before = {change.path: sizes[change.old_id] for change in written if change.old_mode in REGULAR}
    by_id: defaultdict[str | bytes, deque[TreeChange]] = defaultdict(deque)
    by_name: defaultdict[str | bytes, deque[TreeChange]] = defaultdict(deque)
    for change in gone:
        by_id[change.old_id].append(change)
        by_name[_base_name(change.path)].append(change)
    taken: set[bytes] = set()
    for places, key in ((by_id, _content), (by_name, _change_place)):
        for change in written:
            if change.path not in before and (replaced := _next_place(places.get(key(change)), taken)) is not None:
                taken.add(replaced.path)
                before[change.path] = sizes[replaced.old_id]
    return {change.path: sizes[change.new_id] - before.get(change.path, 0) for change in written}


def _next_place(places: deque[TreeChange] | None, taken: set[bytes]) -> TreeChange | None:
    while places:
        found = places.popleft()
        if found.path not in taken:
            return found
    return None


def _content(change: TreeChange) -> str | bytes:
    return change.new_id


def _change_place(change: TreeChange) -> str | bytes:
    return _base_name(change.path)


def _base_name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
