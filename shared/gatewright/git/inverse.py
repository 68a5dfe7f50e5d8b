"""The inverse of a landed commit: its patch, whether a tree is its result, and later changes that it conflicts with."""

from __future__ import annotations

from typing import Final

from gatewright.errors import MalformedError, PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror

#: Maximum paths that are examined for conflicts, and maximum commits that are named for each.
_MOST_PATHS: Final = 20
_MOST_COMMITS: Final = 3


async def inverse_of(mirror: Mirror, commit: str) -> tuple[bytes, tuple[TreeChange, ...]]:
    """Return the canonical patch from ``commit`` back to its parent, with its changes; a rename is a deletion and an addition.

    Raises GitError (``object_missing``), PatchError (``patch_too_large``), MalformedError (``nothing_landed``).
    """
    parents = await mirror.parents(commit)
    if len(parents) != 1:
        raise MalformedError(f"commit {commit} has {len(parents)} parents, so no run landed it", code="nothing_landed")
    return await mirror.diff(commit, parents[0]), await mirror.changes(commit, parents[0])


async def revert_fault(mirror: Mirror, run_id: str, commit: str, baseline: str, tree: str) -> str:
    """Return as text why ``tree`` is not ``baseline`` without the change that ``run_id`` landed as ``commit``; empty if it is.

    Raises GitError (``ref_not_found``): the repository does not have ``commit``.
    """
    await mirror.ensure(commit)
    if f"Gatewright-Run: {run_id}" not in (await mirror.message(commit)).splitlines():
        return f"commit {commit} is not of {run_id}"
    if not await mirror.descends(baseline, commit):
        return f"the baseline does not contain commit {commit}"
    try:
        reverted = await mirror.apply(baseline, (await inverse_of(mirror, commit))[0])
    except (PatchError, MalformedError) as error:
        return f"the inverse of commit {commit} does not apply to the baseline: {error.message}"
    return "" if reverted == tree else f"the change is not the inverse of commit {commit}, which gives tree {reverted}"


async def conflicts(mirror: Mirror, commit: str, tip: str) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Return the paths of ``commit`` whose inverse does not apply to ``tip``, among the first 20 that changed since.

    Each has the newest commits that changed it after ``commit``.
    """
    landed = await mirror.tree_of(commit)
    since = {change.path for change in await mirror.changes(commit, tip)}
    changed = [change for change in (await inverse_of(mirror, commit))[1] if change.path in since]
    found = []
    for change in changed[:_MOST_PATHS]:
        alone = await mirror.diff(landed, await mirror.with_objects(landed, (change,)))
        try:
            await mirror.apply(tip, alone)
        except PatchError:
            found.append((change.path, await mirror.commits_on(change.path, commit, tip, _MOST_COMMITS)))
    return tuple(found)
