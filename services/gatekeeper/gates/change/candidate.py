"""The integrated gate: composes the patches of all workers into one candidate tree and judges it again as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gatewright import scope
from gatewright.contracts.vocabulary import ChangeKind, Scope
from gatewright.ecosystems.runner.linters import changed_linter_settings, may_set_linters
from gatewright.ecosystems.runner.settings import UNREADABLE, is_manifest
from gatewright.errors import DeniedError, GitError, PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.inverse import revert_fault
from gatewright.git.linked.contents import linked_files, may_link
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, REGULAR
from gatewright.git.patches.files import Reading
from gatewright.git.patches.lines import added_bytes
from gatewright.git.patches.reader import read_patch
from gatewright.git.paths import display
from gatewright.git.process import OutputTooLargeError
from gatewright.git.request_head import moved_fault, source_fault
from gatewright.rules.file_growth import file_growth
from gatewright.rules.gate_evidence import CANDIDATE_TREE, COMMITS_RULE, FILES_REMOVED, FILES_WRITTEN, owned_files
from gatewright.run.state import Run, RunTask
from gatewright.scope import AllowedPaths
from gatewright.services.gatekeeper.gates.change.contents import file_pairs, in_portions
from gatewright.services.gatekeeper.gates.change.copies import judge_copies, remark_copies
from gatewright.services.gatekeeper.gates.change.credential_files import judge_credential_files
from gatewright.services.gatekeeper.gates.change.dependencies import remark_dependencies
from gatewright.services.gatekeeper.gates.change.diff import LIMIT_RULE, judge_changes, judge_number, kind_rule
from gatewright.services.gatekeeper.gates.change.links import judge_links
from gatewright.services.gatekeeper.gates.change.new_names import judge_name_limits, judge_readable_names
from gatewright.services.gatekeeper.gates.change.path_collisions import judge_collisions, owners
from gatewright.services.gatekeeper.gates.change.runner_settings import judge_runner
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.gates.change.stored_form import RULE as STORED_FORM_RULE
from gatewright.services.gatekeeper.gates.change.stored_form import judge_stored_form
from gatewright.services.gatekeeper.gates.change.suppressions import remark_suppressions
from gatewright.services.gatekeeper.gates.context import Artifacts, ChangeContext

#: git's own heuristic: a NUL among the first bytes makes a file binary.
SNIFFED_BYTES = 8000
#: Maximum bytes of content read in one batch.
READ_AT_ONCE = 256 << 20
OWNERS_RULE = "file_ownership"
EMPTY_RULE = "empty_diff"
REVERT_RULE = "reverts"
SOURCE_RULE = "source_branch"
BINARY_RULE = kind_rule("binary")


class Trees(NamedTuple):
    """Two tree ids: before and after the change."""

    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class ComposedCandidate:
    """The composed change; ``patch`` is the canonical diff from the baseline."""

    tree: str
    changes: tuple[TreeChange, ...]
    patch: bytes

    @property
    def names(self) -> bytes:
        """The changed paths, each terminated by a NUL."""
        return b"".join(change.path + b"\0" for change in self.changes)


async def judge_patch(context: ChangeContext, secrets: SecretsCheck, patch: bytes, run: Run) -> str:
    """Apply one worker's patch to the run's baseline and judge its changes.

    Returns:
        The id of the resulting tree.

    Raises:
        GitError: the mirror cannot be read, or the patch cannot be applied.
    """
    accepted = run.accepted
    commit, baseline = accepted.baseline_commit, accepted.baseline_tree
    return await judge_patch_on(context, secrets, patch, commit, baseline)


async def judge_patch_on(context: ChangeContext, secrets: SecretsCheck, patch: bytes, commit: str, baseline: str) -> str:
    """Apply a patch to any ``commit`` of the mirror's repository, whose tree is ``baseline``, and judge its changes.

    Returns:
        The id of the resulting tree.

    Raises:
        GitError: the mirror cannot be read, or the patch cannot be applied.
    """
    report, mirror = context.report, context.mirror
    opened = (context.contract.scope or Scope()).allow
    report.checked(LIMIT_RULE)
    await mirror.ensure(commit)
    report.checked("patch")
    try:
        reading = await asyncio.to_thread(read_patch, patch)
        if await _is_too_large(context, patch, reading, opened):
            return ""
        tree = await mirror.apply(commit, patch, reading)
    except PatchError as error:
        report.violate(error.reason, "patch", error.message, error.path)
        return ""
    report.saw(CANDIDATE_TREE, tree)
    changes = await mirror.changes(baseline, tree)
    await secrets.judge_patch_text(context, patch, reading, changes)
    await judge_tree(context, changes, Trees(baseline, tree))
    await judge_copies(context, secrets.sacred, changes, baseline, reading)
    return tree


async def _is_too_large(context: ChangeContext, patch: bytes, reading: Reading, opened: Sequence[ChangeKind]) -> bool:
    """Return whether the patch adds too much. Removed lines and moved content are excluded."""
    limit = context.policies.protected.limits.max_diff_bytes
    if len(patch) <= limit or "large_diff" in opened:
        return False
    size = await asyncio.to_thread(added_bytes, patch, reading.files)
    if size > limit:
        words = f"{size} bytes of patch, {limit} are allowed; opened only by scope.allow: large_diff"
        context.report.violate("diff_too_large", LIMIT_RULE, words)
    return size > limit


async def judge_tree(context: ChangeContext, changes: Sequence[TreeChange], trees: Trees) -> None:
    """Judge a tree against its baseline: names, kinds, classes, collisions, links, contents.

    Raises:
        GitError: the mirror cannot be read.
    """
    if not judge_number(context, changes):
        return
    if not await judge_name_limits(context, changes, trees.baseline):
        return
    # Reads wait for git, so the checks by name run at the same time.
    contents, _ = await asyncio.gather(_read_contents(context, changes), _judge_names(context, changes, trees))
    _judge_contents(context, changes, contents)
    if context.report.clean and may_link(changes, contents.beginnings):
        await _judge_linked(context, trees.candidate)


async def _judge_linked(context: ChangeContext, candidate: str) -> None:
    """Refuse a candidate whose submodules or objects of Git LFS cannot be shown to its tests."""
    try:
        await linked_files(context.mirror, candidate)
    except DeniedError as error:
        rule = kind_rule("submodule") if error.reason.startswith("submodule") else STORED_FORM_RULE
        context.report.violate(error.reason, rule, error.message)


async def _judge_names(context: ChangeContext, changes: Sequence[TreeChange], trees: Trees) -> None:
    await asyncio.to_thread(judge_changes, context, changes)
    await judge_readable_names(context, changes, trees.baseline)
    await judge_collisions(context, changes, trees.baseline, trees.candidate)
    await judge_links(context, changes, trees.candidate)
    await judge_runner(context, changes, trees.candidate)
    await judge_linter_settings(context, changes)
    await judge_credential_files(context, changes)


async def compose(context: ChangeContext, run: Run) -> ComposedCandidate | None:
    """Compose the candidate of a run whose workers have all finished.

    Returns:
        The candidate; None, with a violation in the report, when the patches do not compose.
    """
    mirror = context.mirror
    workers = run.workers()
    tree = workers[0].tree
    for task in workers[1:]:
        patch = await patch_of(task, context.artifacts)
        try:
            tree = await mirror.apply_to_tree(tree, patch)
        except PatchError as error:
            context.report.violate("patches_collide", OWNERS_RULE, f"{task.task_id}: {error.message}")
            return None
    baseline = run.accepted.baseline_tree
    changes, patch = await asyncio.gather(mirror.changes(baseline, tree), mirror.diff(baseline, tree))
    return ComposedCandidate(tree, changes, patch)


async def take_commits(context: ChangeContext, run: Run) -> ComposedCandidate | None:
    """Take the candidate of a review from the head of its order, and that of a test from the baseline, without a change.

    Returns:
        The candidate; None, with a violation in the report, when the head is missing, has moved or changes nothing.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, mirror, baseline = context.report, context.mirror, run.accepted.baseline_tree
    source, tree = context.contract.source_branch, baseline
    report.checked(COMMITS_RULE, source.head if source is not None else run.accepted.baseline_commit)
    if source is not None:
        report.checked(SOURCE_RULE, source.head)
        if source.ref is not None and (fault := await moved_fault(mirror, source)):
            report.violate("source_moved", SOURCE_RULE, fault)
            return None
        if source.base != run.accepted.baseline_commit:
            words = f"the range begins at {source.base}, and the baseline is {run.accepted.baseline_commit}"
            report.violate("source_differs", SOURCE_RULE, words)
            return None
        await mirror.ensure(source.head)
        tree = await mirror.tree_of(source.head)
    changes, patch = await asyncio.gather(mirror.changes(baseline, tree), mirror.diff(baseline, tree))
    if source is not None and not changes:
        report.violate("empty_diff", COMMITS_RULE, f"{source.head} has the tree of the baseline: there is nothing to review")
        return None
    report.saw(CANDIDATE_TREE, tree)
    return ComposedCandidate(tree, changes, patch)


def refuse_empty_change(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Refuse a change without changed files, unless the contract is ``audit_only``."""
    audit_only = context.contract.audit_only
    context.report.checked(EMPTY_RULE, "audit_only" if audit_only else "")
    if not changes and not audit_only:
        words = "the change is empty: no file differs from the baseline, and the contract is not audit_only"
        context.report.violate("empty_diff", EMPTY_RULE, words)


async def judge_candidate(context: ChangeContext, secrets: SecretsCheck, candidate: ComposedCandidate, run: Run) -> None:
    """Judge the whole change against the contract, and every file against the shard that owned it.

    Raises:
        GitError: the mirror cannot be read.
    """
    report = context.report
    refuse_empty_change(context, candidate.changes)
    report.saw(CANDIDATE_TREE, candidate.tree)
    trees = Trees(run.accepted.baseline_tree, candidate.tree)
    await judge_tree(context, candidate.changes, trees)
    await judge_copies(context, secrets.sacred, candidate.changes, trees.baseline)
    await remark_copies(context, candidate.changes, *trees)
    await judge_stored_form(context, candidate.changes, *trees)
    await remark_suppressions(context, candidate.changes)
    await remark_dependencies(context, candidate.changes)
    await _judge_owners(context, candidate, run)
    await _judge_revert(context, candidate.tree, run)
    await _judge_source(context, candidate.tree, run)


async def _judge_owners(context: ChangeContext, candidate: ComposedCandidate, run: Run) -> None:
    """Audit ownership: exactly one worker changed each file, inside its shard, and the content is unchanged since."""
    report = context.report
    report.checked(OWNERS_RULE)
    workers = run.workers()
    made = {task.task_id: await context.mirror.changes(run.accepted.baseline_tree, task.tree) for task in workers}
    for task in workers:
        report.saw(task.task_id, task.tree)
        report.saw(owned_files(task.task_id), f"{len(made[task.task_id])} of {len(candidate.changes)} changed files")
        shard = task.contract.allowed_paths if task.contract is not None else ()
        for path in scope.outside(shard, (change.path for change in made[task.task_id])):
            report.violate("path_out_of_scope", OWNERS_RULE, f"not in the shard of {task.task_id}", path)
    by_path = owners(made)
    for change in candidate.changes:
        mine = by_path.pop(change.path, [])
        if len(mine) > 1:
            report.violate("patches_collide", OWNERS_RULE, "changed by " + ", ".join(name for name, _ in mine), change.path)
        elif not mine:
            report.violate("file_unowned", OWNERS_RULE, "no worker changed it", change.path)
        elif mine[0][1] != change:
            report.violate("file_unowned", OWNERS_RULE, f"not as {mine[0][0]} made it", change.path)
    for path in by_path:
        report.violate("file_unowned", OWNERS_RULE, "a worker's change that the candidate has lost", path)


async def _judge_revert(context: ChangeContext, tree: str, run: Run) -> None:
    """Refuse a change that is not the inverse of what its order reverts: its commit would name the reverted run."""
    reverted = context.contract.reverts
    if reverted is None:
        return
    context.report.checked(REVERT_RULE, reverted.run_id)
    baseline = run.accepted.baseline_commit
    try:
        fault = await revert_fault(context.mirror, reverted.run_id, reverted.commit, baseline, tree)
    except GitError as error:
        if error.reason != "ref_not_found":
            raise
        fault = f"the repository does not have commit {reverted.commit}: {error.message}"
    if fault:
        context.report.violate("revert_differs", REVERT_RULE, fault)


async def _judge_source(context: ChangeContext, tree: str, run: Run) -> None:
    """Refuse a change that is not that of the change request in its order, as the repository has it now.

    A check of the coding host would name the request's head, so that another change must not pass in its name.
    """
    source = context.contract.change_request
    if source is None:
        return
    report, mirror = context.report, context.mirror
    report.checked(SOURCE_RULE, f"{source.ref} {source.head}")
    if fault := await moved_fault(mirror, source):
        report.violate("source_moved", SOURCE_RULE, fault)
        return
    try:
        fault = await source_fault(mirror, source, run.accepted.baseline_commit, tree)
    except GitError as error:
        if error.reason != "ref_not_found":
            raise
        report.violate("source_moved", SOURCE_RULE, f"the repository does not have commit {source.head}: {error.message}")
        return
    if fault:
        report.violate("source_differs", SOURCE_RULE, fault)


async def patch_of(task: RunTask, artifacts: Artifacts) -> bytes:
    """Return the bytes of a worker's patch; empty for no change."""
    if task.result is None or not task.result.git.patch:
        return b""
    return await artifacts.get_artifact(task.result.git.patch)


class _Contents(NamedTuple):
    """Size growth of every written file by path, and the beginning of its content by blob id."""

    growth: Mapping[bytes, int]
    beginnings: Mapping[str, bytes]


def _written_changes(changes: Sequence[TreeChange]) -> list[TreeChange]:
    return [change for change in changes if change.new_mode in REGULAR and change.new_id != change.old_id]


async def _read_contents(context: ChangeContext, changes: Sequence[TreeChange]) -> _Contents:
    """Read all contents at once if they are small enough, else in batches. Raises GitError."""
    mirror = context.mirror
    ids = {change.new_id for change in _written_changes(changes)}
    try:
        blobs = await mirror.blobs(ids, READ_AT_ONCE)
    except OutputTooLargeError:
        sizes = await mirror.sizes(ids)
        beginnings = await _read_in_portions(mirror, sizes)
    else:
        sizes = {object_id: len(content) for object_id, content in blobs.items()}
        beginnings = {object_id: content[:SNIFFED_BYTES] for object_id, content in blobs.items()}
    limit = context.policies.protected.limits.max_file_bytes
    if all(size <= limit for size in sizes.values()):
        return _Contents({}, beginnings)
    earlier = {change.old_id for change in changes if change.old_mode in REGULAR}
    return _Contents(file_growth(changes, {**await mirror.sizes(earlier), **sizes}), beginnings)


async def _read_in_portions(mirror: Mirror, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Read the beginnings of blobs that are too large together for one batch."""
    found: dict[str, bytes] = {}
    portion: list[str] = []
    held = 0
    for object_id, size in [*sizes.items(), ("", READ_AT_ONCE)]:
        if portion and held + size > READ_AT_ONCE:
            contents = await mirror.blobs(portion)
            found |= {each: content[:SNIFFED_BYTES] for each, content in contents.items()}
            portion, held = [], 0
        if object_id:
            portion.append(object_id)
            held += size
    return found


def _judge_contents(context: ChangeContext, changes: Sequence[TreeChange], contents: _Contents) -> None:
    """Judge growth and kind of every written file."""
    report = context.report
    limit = context.policies.protected.limits.max_file_bytes
    opened = (context.contract.scope or Scope()).allow
    report.checked(BINARY_RULE, "opened by scope.allow" if "binary" in opened else "")
    written = _written_changes(changes)
    for change in written:
        added = contents.growth.get(change.path, 0)
        if added > limit and "large_file" not in opened:
            words = f"{added} bytes are added, {limit} are allowed; opened only by scope.allow: large_file"
            report.violate("file_too_large", LIMIT_RULE, words, change.path)
        if b"\0" in contents.beginnings.get(change.new_id, b"") and "binary" not in opened:
            report.violate("binary_refused", BINARY_RULE, "opened only by scope.allow: binary", change.path)
    report.saw(FILES_WRITTEN, str(len(written)))
    report.saw(FILES_REMOVED, str(sum(change.new_mode == ABSENT for change in changes)))


# Linter settings inside a manifest belong to the class of protected paths, even when another rule opens the rest of the file.
RULE: Final = "protected_paths.protected"
_CLASS: Final = "protected"
#: Maximum number of listed settings per file.
_MAX_LISTED: Final = 4
#: Maximum number of compared manifests per change; in each further manifest every change is a finding.
_MOST_MANIFESTS: Final = 200


async def judge_linter_settings(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Judge changes of the settings of linters, type checkers and formatters.

    Raises:
        GitError: the mirror cannot be read.
    """
    kind = next(each for each in context.policies.protected.classes if each.name == _CLASS)
    opened = AllowedPaths((context.contract.scope or Scope()).allow_protected_paths)
    pairs = [
        pair
        for pair in file_pairs(changes)
        if may_set_linters(pair.path) and kind not in context.policies.path_classes(pair.path)
    ]
    reasons = {pair.path: "settings of linters may change here" for pair in pairs[_MOST_MANIFESTS:]}
    async for some, contents in in_portions(pairs[:_MOST_MANIFESTS], context.mirror):
        for pair in some:
            old, new = [contents[each] if each else None for each in (pair.old_id, pair.new_id)]
            parts = await asyncio.to_thread(changed_linter_settings, pair.path, old, new)
            if parts and parts[0].startswith(UNREADABLE) and is_manifest(pair.path):
                continue  # refused as a runner setting; only a scope that names the file opens it
            if parts:
                more = f" and {len(parts) - _MAX_LISTED} more" if len(parts) > _MAX_LISTED else ""
                named = ", ".join(display(part[:80].encode("utf-8", "surrogatepass")) for part in parts[:_MAX_LISTED])
                reasons[pair.path] = f"settings of linters change: {named}{more}"
    for path, words in reasons.items():
        if opened.cover(path):
            context.report.touched(RULE, path)
        else:
            context.report.violate("path_protected", RULE, f"{words}; opened only by {kind.opened_by}", path)
