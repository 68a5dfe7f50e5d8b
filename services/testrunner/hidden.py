"""The candidate as hidden commands see it: with files that its maker never saw, replacing its own at their paths."""

from __future__ import annotations

import dataclasses

from gatewright.artifacts import ArtifactPort
from gatewright.contracts import TaskContract
from gatewright.git.changes import FileChange
from gatewright.git.modes import FILE
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.tasks.provided import hidden_contents


async def with_hidden_files(task: TaskContract, candidate: RebuiltCandidate, artifacts: ArtifactPort) -> RebuiltCandidate:
    """The same change between two trees that both have the hidden files.

    Raises DeniedError (``git_path``), MalformedError (``provided_too_large``, ...), ArtifactError, GitError.
    """
    changes = [FileChange(path, FILE, content) for path, content in (await hidden_contents(task, artifacts)).items()]
    if not changes:
        return candidate
    tree = await candidate.mirror.write_tree(candidate.tree, changes)
    return dataclasses.replace(
        candidate, tree=tree, baseline_tree=await candidate.mirror.write_tree(candidate.baseline_tree, changes)
    )
