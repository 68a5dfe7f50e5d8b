"""Submits a patch that came with the request, unchanged, after checking that it applies to the baseline."""

from __future__ import annotations

from gatewright.services.worker.executors.port import ExecutionResult, Job
from gatewright.tasks.inputs import read_artifact


class PatchExecutor:
    """The canonical form of the patch is the gatekeeper's own diff of the trees; nothing is rewritten here."""

    async def execute(self, job: Job) -> ExecutionResult:
        """Raises PatchError (``patch_does_not_apply``), MalformedError, ArtifactError."""
        patch = await read_artifact(job.contract, job.answer, job.artifacts)
        tree = await job.mirror.apply(job.baseline, patch)
        return ExecutionResult(tree, patch, summary=f"the patch {job.answer!r} applies")
