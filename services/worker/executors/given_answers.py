"""Executors of given answers: the files of a model's text reply, or a patch that came with the request. Nothing is run."""

from __future__ import annotations

import asyncio

from gatewright.errors import ExtractionError
from gatewright.git.changes import FileChange
from gatewright.git.modes import FILE, REGULAR
from gatewright.git.paths import display
from gatewright.services.worker.executors.blocked_file import take_blocked
from gatewright.services.worker.executors.port import ExecutionResult, Job
from gatewright.services.worker.reply.files import extract
from gatewright.tasks.inputs import read_artifact

#: The name of the artifact that holds the reply.
REPLY_LOG = "reply"
#: Added, modified: all that a reply may do to a path.
_WRITTEN = frozenset({"A", "M"})


class ReplyExecutor:
    """Straight from the reply to objects: no workspace, no command."""

    async def execute(self, job: Job) -> ExecutionResult:
        """Raises ExtractionError (``reply_not_usable``), MalformedError, ArtifactError."""
        reply = await read_artifact(job.contract, job.answer, job.artifacts)
        return await change_of(job, reply)


async def change_of(job: Job, reply: bytes) -> ExecutionResult:
    """Apply the files of ``reply`` to the baseline, without the file of questions.

    Raises:
        ExtractionError: the reply cannot be parsed.
    """
    # In a thread: a long reply must not block the process's heartbeats.
    extraction = await asyncio.to_thread(extract, reply)
    paths = tuple(path for path, _ in extraction.files)
    modes = {entry.path: entry.mode for entry in await job.mirror.files(job.baseline, paths)}
    changes = [FileChange(path.encode(), modes.get(path.encode(), FILE), content) for path, content in extraction.files]
    for change in changes:
        if change.mode not in REGULAR:
            raise ExtractionError(f"{display(change.path)!r} is a symbolic link or a submodule at the baseline")
    kept, blocked = await take_blocked(changes, job.mirror, job.baseline)
    if not kept:
        raise ExtractionError("the reply asks a question and contains no file: decide what is open and make the change")
    tree = await job.mirror.write_tree(job.baseline, kept)
    # A file in the place of a directory, or below a file, would take away what stands there.
    for done in await job.mirror.changes(job.baseline, tree):
        if done.status not in _WRITTEN:
            raise ExtractionError(f"{display(done.path)!r} would be taken away by a file of the reply")
    summary = f"{len(kept)} file(s) from the reply; {extraction.snippets} block(s) without a name left out"
    return ExecutionResult(tree, await job.mirror.diff(job.baseline, tree), {REPLY_LOG: reply}, summary, blocked=blocked)


class PatchExecutor:
    """The canonical form of the patch is the gatekeeper's own diff of the trees; nothing is rewritten here."""

    async def execute(self, job: Job) -> ExecutionResult:
        """Raises PatchError (``patch_does_not_apply``), MalformedError, ArtifactError."""
        patch = await read_artifact(job.contract, job.answer, job.artifacts)
        tree = await job.mirror.apply(job.baseline, patch)
        return ExecutionResult(tree, patch, summary=f"the patch {job.answer!r} applies")
