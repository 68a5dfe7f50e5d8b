"""Placement of an entry in the queue, and choice of the entries of the next position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gatewright.contracts.queue_policy import LANES, QueuePolicy
from gatewright.queue.composition import Footprint, conflict_with, folders_of, footprint_of
from gatewright.queue.state import UNNAMED, Entry, Queue, Queued, runs_in


def place_of(queue: Queue, entry: Entry, policy: QueuePolicy) -> str:
    """Return the run that ``entry`` is placed before; empty for the end.

    An entry is placed before slower lanes, and before entries with which another publisher exceeds its share of the window. It
    is never placed before an entry in a position, or before one that was overtaken as often as the policy permits.
    """
    planned = set(runs_in(queue.line))
    share = max(1, int(policy.publisher_share * queue.window * policy.batch_size))
    count: Counter[tuple[str, str]] = Counter()
    ordinals: list[tuple[str, int]] = []
    for run_id, each in queue.entries.items():
        count[each.entry.publisher, each.entry.lane] += 1
        ordinals.append((run_id, count[each.entry.publisher, each.entry.lane]))
    own, ahead_of = count[entry.publisher, entry.lane] + 1, ""
    for run_id, ordinal in reversed(ordinals):
        other = queue.entries[run_id]
        if run_id in planned or other.overtaken >= policy.overtaken_at_most:
            break
        faster = LANES.index(entry.lane) < LANES.index(other.entry.lane)
        fairer = entry.lane == other.entry.lane and entry.publisher != other.entry.publisher and own <= share < ordinal
        if not (faster or fairer):
            break
        ahead_of = run_id
    return ahead_of


def next_group(queue: Queue, policy: QueuePolicy) -> tuple[str, ...]:
    """Return the runs of the next position, in order; empty while none can be added.

    They are neighbours with disjoint paths. Where reports of red trees name suspects, the first position has half of the
    suspects of each failed test, so that one test halves all of them, and no position behind it has any. A group whose tree is
    known to be red is halved.
    """
    group = _neighbours(queue, policy)
    if not group:
        return ()
    kept = _without_suspects(queue, group)
    while len(kept) > 1 and (red := _smallest_red(queue, kept)):
        kept = red[: max(1, len(red) // 2)]
    kept = _within_overtaking(queue, policy, kept) or ([] if queue.line else group[:1])
    while len(kept) > 1 and _smallest_red(queue, kept):
        kept = kept[: len(kept) // 2]
    return tuple(kept)


def suspicions(queue: Queue) -> list[tuple[str, ...]]:
    """Return the suspects of each failed test of a red tree: the queued runs that may have broken it, in order.

    Suspects are in every tree in which the test failed, and in none in which it did not fail. They only choose what to test
    next, and assume that each failure has one cause. Two runs that break a test only together are not found, and neither is a
    run that has left.
    """
    known = [result for result in queue.results.values() if result.runs]
    complete = [result for result in known if UNNAMED not in result.names]
    blamed = {name for result in queue.results.values() if not result.runs for name in result.failed}
    found = set()
    for name in {name for result in known for name in result.names} - blamed:
        inside = [result.runs for result in known if name in result.names]
        outside = [result.runs for result in complete if name not in result.names]
        found.add(frozenset.intersection(*inside).difference(*outside))
    order = {run_id: index for index, run_id in enumerate(queue.entries)}
    return sorted(tuple(sorted(each, key=order.__getitem__)) for each in found if each)


def conflicts_after_landing(queue: Queue, landed: Sequence[Queued]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the entries that conflict with ``landed``: run, last landed run in conflict, and the paths.

    An entry behind another one with the same paths is not included, since it may fit once that one has landed.
    """
    found = []
    writes = {change.path: change.new for each in landed for change in each.entry.changes}
    touched = footprint_of(change for each in landed for change in each.entry.changes)
    ahead = Footprint()
    for run_id, each in queue.entries.items():
        paths = conflict_with(writes, each.entry.changes) if each.footprint.overlaps(touched) else ()
        if paths and not each.footprint.overlaps(ahead):
            wrong = Footprint(frozenset(paths), frozenset(folder for path in paths for folder in folders_of(path)))
            against = next(other.entry.run_id for other in reversed(landed) if other.footprint.overlaps(wrong))
            found.append((run_id, against, paths))
        else:
            ahead |= each.footprint
    return found


def _neighbours(queue: Queue, policy: QueuePolicy) -> list[str]:
    """Return the first entries outside the line with disjoint paths that fit the line.

    An entry that conflicts with one ahead waits until that one has landed or left. So does every entry that shares its paths.
    An entry that fits only on top of one of the group begins the next position.
    """
    taken = dict.fromkeys(runs_in(queue.line))
    writes = {change.path: change.new for run_id in taken for change in queue.entries[run_id].entry.changes}
    written = footprint_of(change for run_id in taken for change in queue.entries[run_id].entry.changes)
    group: list[str] = []
    own = waiting = Footprint()
    for run_id, each in queue.entries.items():
        if run_id in taken:
            continue
        stacks, changes = each.footprint.overlaps(own), each.entry.changes
        near = stacks or each.footprint.overlaps(written)
        if each.footprint.overlaps(waiting) or (near and conflict_with(writes, changes)):
            waiting |= each.footprint
            continue
        if stacks or len(group) == policy.batch_size:
            break
        group.append(run_id)
        own |= each.footprint
        writes.update((change.path, change.new) for change in changes)
    return group


def _without_suspects(queue: Queue, group: list[str]) -> list[str]:
    """Return ``group`` for the first position without the later half of the suspects of each failed test; else without any.

    The first run stays alone in the first position if the group has only suspects, or if it was left for later before.
    """
    later: set[str] = set()
    for suspects in suspicions(queue):
        own = [run_id for run_id in suspects if run_id in group]
        later.update(own if queue.line else own[len(own) // 2 :])
    kept = [run_id for run_id in group if run_id not in later]
    if queue.line:
        return kept
    first = group[0]
    return kept if kept and not (first in later and queue.entries[first].overtaken) else [first]


def _smallest_red(queue: Queue, group: Sequence[str]) -> list[str]:
    """Return the smallest subset of ``group`` known to be red on top of the line; empty where there is none."""
    ahead = set(runs_in(queue.line))
    known = (result.runs for result in queue.results.values() if result.names)
    inside = ([run_id for run_id in group if run_id in runs] for runs in known if runs <= ahead.union(group))
    return min(filter(None, inside), key=lambda runs: (len(runs), runs), default=[])


def _within_overtaking(queue: Queue, policy: QueuePolicy, group: Iterable[str]) -> list[str]:
    """Return the first runs of ``group`` that may overtake the entries ahead of them outside the group."""
    wanted, taken = set(group), set(runs_in(queue.line))
    kept: list[str] = []
    landing, most = 0, len(queue.entries)
    for run_id, each in queue.entries.items():
        if run_id not in wanted and run_id not in taken:
            most = min(most, landing + policy.overtaken_at_most - each.overtaken)
            continue
        if run_id in wanted:
            if landing >= most:
                break
            kept.append(run_id)
        landing += 1
    return kept
