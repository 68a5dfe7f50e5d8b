"""The integrated gate's work: the patches of all workers composed into one candidate tree, judged again as a whole."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Scope
from gatewright.errors import PatchError
from gatewright.git.changes import Change
from gatewright.git.mirror import Mirror
from gatewright.ledger.run import Run, Task
from services.gatekeeper.artifact_cache import ArtifactCache
from services.gatekeeper.gates.diff import ABSENT, REGULAR, judge_changes
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import Policies

#: git's own rule of thumb: a NUL among the first bytes makes a file binary.
SNIFFED_BYTES = 8000


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the patches add up to; ``patch`` is the canonical diff from the baseline."""

    tree: str
    changes: tuple[Change, ...]
    patch: bytes

    @property
    def names(self) -> bytes:
        """The changed paths, each ended by a NUL."""
        return b"".join(change.path + b"\0" for change in self.changes)


async def judge_patch(
    patch: bytes, contract: TaskContract, run: Run, mirror: Mirror, policies: Policies, found: Judgement
) -> str:
    """Apply one worker's patch to the baseline and judge what it changes; returns the resulting tree."""
    opened = (contract.scope or Scope()).allow
    if len(patch) > policies.protected.limits.max_diff_bytes and "large_diff" not in opened:
        found.violate("diff_too_large", "protected_paths.limits", f"{len(patch)} bytes of patch")
        return ""
    await mirror.ensure(run.accepted.baseline_commit)
    try:
        tree = await mirror.apply(run.accepted.baseline_commit, patch)
    except PatchError as error:
        found.violate(error.reason, "diff_gate", error.message)
        return ""
    found.saw("candidate_tree", tree)
    changes = await mirror.changes(run.accepted.baseline_tree, tree)
    judge_changes(changes, contract, policies, found)
    await _contents(changes, contract, mirror, policies, found)
    return tree


async def compose(run: Run, mirror: Mirror, artifacts: ArtifactCache, found: Judgement) -> Candidate | None:
    """The candidate of a run whose workers have all finished; None, with a violation, when the patches do not compose."""
    workers = run.workers()
    tree = workers[0].tree
    for task in workers[1:]:
        patch = await patch_of(task, artifacts)
        try:
            tree = await mirror.apply_to_tree(tree, patch)
        except PatchError as error:
            found.violate("patches_collide", "integrated_gate", f"{task.task_id}: {error.message}")
            return None
    baseline = run.accepted.baseline_tree
    changes, patch = await asyncio.gather(mirror.changes(baseline, tree), mirror.diff(baseline, tree))
    return Candidate(tree, changes, patch)


def judge_candidate(candidate: Candidate, run: Run, contract: TaskContract, policies: Policies, found: Judgement) -> None:
    """The whole change against the whole contract, and every file against the shard that owned it."""
    if not candidate.changes and not contract.audit_only:
        found.violate("empty_diff", "integrated_gate", "nothing was changed, and the contract is not audit_only")
    judge_changes(candidate.changes, contract, policies, found)
    found.saw("candidate_tree", candidate.tree)
    for task in run.workers():
        found.saw(task.task_id, task.tree)


async def patch_of(task: Task, artifacts: ArtifactCache) -> bytes:
    """The bytes that a worker handed over; empty for no change."""
    if task.result is None or not task.result.git.patch:
        return b""
    return await artifacts.get_artifact(task.result.git.patch)


async def _contents(
    changes: tuple[Change, ...], contract: TaskContract, mirror: Mirror, policies: Policies, found: Judgement
) -> None:
    """Size and kind of every file that is there afterwards."""
    limit = policies.protected.limits.max_file_bytes
    opened = (contract.scope or Scope()).allow
    written = [change for change in changes if change.new_mode in REGULAR and change.new_id != change.old_id]
    blobs = await mirror.blobs([change.new_id for change in written])
    for change in written:
        content = blobs[change.new_id]
        if len(content) > limit and "large_file" not in opened:
            found.violate("file_too_large", "protected_paths.limits", f"{len(content)} bytes", change.path)
        if b"\0" in content[:SNIFFED_BYTES] and "binary" not in opened:
            found.violate("binary_refused", "diff_gate", "opened only by scope.allow: binary", change.path)
    removed = [change for change in changes if change.new_mode == ABSENT]
    found.saw("files_written", str(len(written)))
    found.saw("files_removed", str(len(removed)))
