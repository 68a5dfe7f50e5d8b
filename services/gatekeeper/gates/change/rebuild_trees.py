"""Trees of another gatekeeper, rebuilt here: each replica has its own mirrors and may have to finish any run.

A tree is the result of a patch on the baseline. Both are known by digest, and the result is compared with the recorded id.
"""

from __future__ import annotations

from gatewright.errors import GitError, PatchError
from gatewright.git.mirror import Mirror
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.change.candidate import patch_of
from gatewright.services.gatekeeper.gates.context import Artifacts, ChangeContext


async def bring_workers(context: ChangeContext, run: Run) -> None:
    """Rebuild the trees of the current attempt's workers in the mirror.

    Raises:
        GitError: a rebuilt tree has another id (``tree_differs``), or the mirror cannot be read.
        ArtifactError: a patch cannot be read.
    """
    mirror = context.mirror
    for task in run.workers():
        if task.tree and not await mirror.has_tree(task.tree):
            await _bring(run, task.tree, await patch_of(task, context.artifacts), mirror)


async def bring_candidate(context: ChangeContext, run: Run) -> None:
    """Rebuild the candidate's tree in the mirror.

    Raises:
        GitError: the rebuilt tree has another id (``tree_differs``), or the mirror cannot be read.
        ArtifactError: the patch cannot be read.
    """
    await bring_candidate_of(run, context.mirror, context.artifacts)


async def bring_candidate_of(run: Run, mirror: Mirror, artifacts: Artifacts) -> None:
    """Do the same without a judgement. The mirror has the baseline."""
    candidate = run.candidate
    if candidate is not None and not await mirror.has_tree(candidate.tree):
        await _bring(run, candidate.tree, await artifacts.get_artifact(candidate.patch), mirror)


async def _bring(run: Run, tree: str, patch: bytes, mirror: Mirror) -> None:
    try:
        made = await mirror.apply(run.accepted.baseline_commit, patch)
    except PatchError as error:
        raise GitError(f"the patch of tree {tree} does not apply: {error.message}", code="tree_differs") from error
    if made != tree:
        raise GitError(f"the patch of tree {tree} makes {made}", code="tree_differs")
