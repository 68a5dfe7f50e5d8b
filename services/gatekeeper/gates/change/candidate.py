"""The integrated gate's work: the patches of all workers composed into one candidate tree, judged again as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Scope
from gatewright.errors import PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.process import OutputTooLargeError
from gatewright.ledger.run import Run, RunTask
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.gates.change.approvals import NOTHING, Approved
from gatewright.services.gatekeeper.gates.change.diff import ABSENT, LIMIT_RULE, REGULAR, judge_changes, judge_number, kind_rule
from gatewright.services.gatekeeper.gates.change.links import judge_links
from gatewright.services.gatekeeper.gates.change.new_names import judge_name_limits, judge_readable_names
from gatewright.services.gatekeeper.gates.change.path_collisions import judge_collisions, owners
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies

#: git's own rule of thumb: a NUL among the first bytes makes a file binary.
SNIFFED_BYTES = 8000
#: Contents of a change that are read in one go, in bytes.
READ_AT_ONCE = 256 << 20
OWNERS_RULE = "file_ownership"
BINARY_RULE = kind_rule("binary")


class Trees(NamedTuple):
    """Two tree ids: what the change starts from, and what it leads to."""

    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class ComposedCandidate:
    """What the patches add up to; ``patch`` is the canonical diff from the baseline."""

    tree: str
    changes: tuple[TreeChange, ...]
    patch: bytes

    @property
    def names(self) -> bytes:
        """The changed paths, each ended by a NUL."""
        return b"".join(change.path + b"\0" for change in self.changes)


async def judge_patch(
    patch: bytes,
    contract: TaskContract,
    run: Run,
    mirror: Mirror,
    policies: Policies,
    found: GateReportBuilder,
    approved: Approved = NOTHING,
) -> str:
    """Apply one worker's patch to the run's baseline and judge what it changes; returns the resulting tree."""
    accepted = run.accepted
    commit, baseline = accepted.baseline_commit, accepted.baseline_tree
    return await judge_patch_on(commit, baseline, patch, contract, mirror, policies, found, approved)


async def judge_patch_on(
    commit: str,
    baseline: str,
    patch: bytes,
    contract: TaskContract,
    mirror: Mirror,
    policies: Policies,
    found: GateReportBuilder,
    approved: Approved = NOTHING,
) -> str:
    """The same on any ``commit`` of the mirror's repository, whose tree is ``baseline``. Raises GitError."""
    opened = (contract.scope or Scope()).allow
    found.checked(LIMIT_RULE)
    if len(patch) > policies.protected.limits.max_diff_bytes and "large_diff" not in opened:
        found.violate("diff_too_large", LIMIT_RULE, f"{len(patch)} bytes of patch; opened only by scope.allow: large_diff")
        return ""
    await mirror.ensure(commit)
    found.checked("patch")
    try:
        tree = await mirror.apply(commit, patch)
    except PatchError as error:
        found.violate(error.reason, "patch", error.message)
        return ""
    found.saw("candidate_tree", tree)
    changes = await mirror.changes(baseline, tree)
    await judge_tree(changes, Trees(baseline, tree), contract, mirror, policies, found, approved)
    return tree


async def judge_tree(
    changes: Sequence[TreeChange],
    trees: Trees,
    contract: TaskContract,
    mirror: Mirror,
    policies: Policies,
    found: GateReportBuilder,
    approved: Approved,
) -> None:
    """Everything that a tree can be refused for, seen from its baseline: names, kinds, classes, collisions, links, contents.

    Raises GitError.
    """
    if not judge_number(changes, policies, found):
        return
    if not await judge_name_limits(changes, trees.baseline, mirror, policies, found):
        return
    # Reading is waiting for git: what is judged by name alone is judged meanwhile.
    contents, _ = await asyncio.gather(
        _read(changes, contract, mirror, policies), _judge_names(changes, trees, contract, mirror, policies, found, approved)
    )
    _judge_contents(changes, contents, contract, policies, found)


async def _judge_names(
    changes: Sequence[TreeChange],
    trees: Trees,
    contract: TaskContract,
    mirror: Mirror,
    policies: Policies,
    found: GateReportBuilder,
    approved: Approved,
) -> None:
    await asyncio.to_thread(judge_changes, changes, contract, policies, found, approved)
    await judge_readable_names(changes, trees.baseline, mirror, found)
    await judge_collisions(changes, trees.baseline, trees.candidate, mirror, found)
    await judge_links(changes, trees.candidate, mirror, policies, found)


async def compose(run: Run, mirror: Mirror, artifacts: ArtifactCache, found: GateReportBuilder) -> ComposedCandidate | None:
    """The candidate of a run whose workers have all finished; None, with a violation, when the patches do not compose."""
    workers = run.workers()
    tree = workers[0].tree
    for task in workers[1:]:
        patch = await patch_of(task, artifacts)
        try:
            tree = await mirror.apply_to_tree(tree, patch)
        except PatchError as error:
            found.violate("patches_collide", OWNERS_RULE, f"{task.task_id}: {error.message}")
            return None
    baseline = run.accepted.baseline_tree
    changes, patch = await asyncio.gather(mirror.changes(baseline, tree), mirror.diff(baseline, tree))
    return ComposedCandidate(tree, changes, patch)


async def judge_candidate(
    candidate: ComposedCandidate,
    run: Run,
    contract: TaskContract,
    mirror: Mirror,
    policies: Policies,
    found: GateReportBuilder,
    approved: Approved = NOTHING,
) -> None:
    """The whole change against the whole contract, and every file against the shard that owned it. Raises GitError."""
    found.checked("empty_diff", "audit_only" if contract.audit_only else "")
    if not candidate.changes and not contract.audit_only:
        found.violate("empty_diff", "empty_diff", "nothing was changed, and the contract is not audit_only")
    found.saw("candidate_tree", candidate.tree)
    trees = Trees(run.accepted.baseline_tree, candidate.tree)
    await judge_tree(candidate.changes, trees, contract, mirror, policies, found, approved)
    await _judge_owners(candidate, run, mirror, found)


async def _judge_owners(candidate: ComposedCandidate, run: Run, mirror: Mirror, found: GateReportBuilder) -> None:
    """The audit of ownership: each changed file is the change of just one worker, whose shard it lies in, and as he made it."""
    found.checked(OWNERS_RULE)
    workers = run.workers()
    made = {task.task_id: await mirror.changes(run.accepted.baseline_tree, task.tree) for task in workers}
    for task in workers:
        found.saw(task.task_id, task.tree)
        found.saw(f"{task.task_id} owns", f"{len(made[task.task_id])} of {len(candidate.changes)} changed files")
        shard = task.contract.allowed_paths if task.contract is not None else ()
        for path in scope.outside(shard, (change.path for change in made[task.task_id])):
            found.violate("path_out_of_scope", OWNERS_RULE, f"not in the shard of {task.task_id}", path)
    by_path = owners(made)
    for change in candidate.changes:
        mine = by_path.pop(change.path, [])
        if len(mine) > 1:
            found.violate("patches_collide", OWNERS_RULE, "changed by " + ", ".join(name for name, _ in mine), change.path)
        elif not mine:
            found.violate("file_unowned", OWNERS_RULE, "no worker changed it", change.path)
        elif mine[0][1] != change:
            found.violate("file_unowned", OWNERS_RULE, f"not as {mine[0][0]} made it", change.path)
    for path in by_path:
        found.violate("file_unowned", OWNERS_RULE, "a worker's change that the candidate has lost", path)


async def patch_of(task: RunTask, artifacts: ArtifactCache) -> bytes:
    """The bytes that a worker handed over; empty for no change."""
    if task.result is None or not task.result.git.patch:
        return b""
    return await artifacts.get_artifact(task.result.git.patch)


class _Contents(NamedTuple):
    """By blob id: the size in bytes of every written file, and the beginning of those that were read."""

    sizes: Mapping[str, int]
    beginnings: Mapping[str, bytes]


def _written(changes: Sequence[TreeChange]) -> list[TreeChange]:
    return [change for change in changes if change.new_mode in REGULAR and change.new_id != change.old_id]


async def _read(changes: Sequence[TreeChange], contract: TaskContract, mirror: Mirror, policies: Policies) -> _Contents:
    """All at once where that is not too much; else what is too large is refused unread. Raises GitError."""
    ids = {change.new_id for change in _written(changes)}
    try:
        blobs = await mirror.blobs(ids, READ_AT_ONCE)
    except OutputTooLargeError:
        sizes = await mirror.sizes(ids)
        opened = (contract.scope or Scope()).allow
        limit = policies.protected.limits.max_file_bytes
        wanted = [object_id for object_id, size in sizes.items() if size <= limit or "large_file" in opened]
        blobs = await mirror.blobs(wanted) if "binary" not in opened else {}
    else:
        sizes = {object_id: len(content) for object_id, content in blobs.items()}
    return _Contents(sizes, {object_id: content[:SNIFFED_BYTES] for object_id, content in blobs.items()})


def _judge_contents(
    changes: Sequence[TreeChange], contents: _Contents, contract: TaskContract, policies: Policies, found: GateReportBuilder
) -> None:
    """Size and kind of every file that is there afterwards."""
    limit = policies.protected.limits.max_file_bytes
    opened = (contract.scope or Scope()).allow
    found.checked(BINARY_RULE, "opened by scope.allow" if "binary" in opened else "")
    written = _written(changes)
    for change in written:
        size = contents.sizes[change.new_id]
        if size > limit and "large_file" not in opened:
            found.violate("file_too_large", LIMIT_RULE, f"{size} bytes; opened only by scope.allow: large_file", change.path)
        if b"\0" in contents.beginnings.get(change.new_id, b"") and "binary" not in opened:
            found.violate("binary_refused", BINARY_RULE, "opened only by scope.allow: binary", change.path)
    found.saw("files_written", str(len(written)))
    found.saw("files_removed", str(sum(change.new_mode == ABSENT for change in changes)))
