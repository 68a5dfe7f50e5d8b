"""Step 8 of a verification, with a given repository: compares the recorded trees, patch and landed commit with its objects.

Objects are fetched into a private mirror in a temporary folder; the repository is only read. The diff gate's policy decisions
(protected paths, limits) are not judged again: a bundle has the digest of the policies, not the policies.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from pathlib import Path

from gatewright import scope
from gatewright.contracts import codec
from gatewright.errors import DeniedError, GitError, MalformedError, PatchError
from gatewright.evidence import layout
from gatewright.evidence.verification.reading import Reading
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.inverse import revert_fault
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.paths import display
from gatewright.git.request_head import authors_fault, source_fault
from gatewright.rules.approvals import result_rules
from gatewright.run.state import Run

_TRAILER = re.compile(r"^Gatewright-(Run|Contract|Event-Chain): (\S+)$", re.MULTILINE)  # noqa: TID251 - linear: each try ends where the next one begins


def check_repository(reading: Reading, step: int, url: str, access: RepositoryAccess | None = None) -> str:
    """8. Compare the bundle with the objects of the repository at ``url``. Must not be called in a running event loop.

    1. The baseline commit has the recorded tree.
    2. patch.diff, applied to it, gives the candidate, and is its canonical diff.
    3. Every changed path is inside the contract's. The change of a revert is the inverse of the reverted commit, that of a
       change request leads to its head. A review or a test is about the commit in its order.
    4. The landed commit has the baseline as its parent and the candidate's tree. In a merge queue, it is a descendant of the
       branch before the push, and changes no other content on top of its one parent than the candidate on top of the baseline.
    5. Its ref contains it, directly or in its history; a missing ref is only noted, since merged branches are deleted.
    6. Its trailers name this run, its contract and an event of its chain. For a commit that was found on the ref, only the run:
       the ledger of the landing was lost.
    """
    run = reading.run
    if run is None or not run.accepted.baseline_commit:
        return "there is no baseline to start from"
    try:
        with tempfile.TemporaryDirectory(prefix="gatewright-verify-") as scratch:
            asyncio.run(_check_repository(reading, run, step, url, Mirrors(Path(scratch), access=access or NO_ACCESS)))
    except (MalformedError, GitError, DeniedError) as error:
        reading.findings.incomplete(step, "repository_unavailable", "", f"{url}: {error.message}")
    except OSError as error:
        reading.findings.incomplete(step, "repository_unavailable", "", f"no space for a mirror: {error.strerror or error}")
    return ""


async def _check_repository(reading: Reading, run: Run, step: int, url: str, mirrors: Mirrors) -> None:
    findings, accepted = reading.findings, run.accepted
    mirror = await mirrors.open(url)
    try:
        await mirror.ensure(accepted.baseline_commit)
    except GitError as error:
        findings.incomplete(step, "baseline_missing", layout.GIT_BASELINE, error.message)
        return
    tree = await mirror.tree_of(accepted.baseline_commit)  # 1
    if tree != accepted.baseline_tree:
        findings.wrong(step, "baseline_differs", layout.GIT_BASELINE, f"the repository's commit has tree {tree}")
        return
    if run.candidate is None:
        reading.notes.append("no candidate was composed, so there is no tree to make again")
        return
    await _check_patch(reading, run, mirror, step, run.candidate.tree)
    if run.landed is not None and run.landed.commit:
        await _check_landed(reading, run, mirror, step, run.landed.commit)


async def _check_patch(reading: Reading, run: Run, mirror: Mirror, step: int, candidate: str) -> None:
    findings = reading.findings
    patch = reading.patch(step)
    if patch is None:
        return
    baseline = run.accepted.baseline_commit
    try:
        tree = await mirror.apply(baseline, patch)  # 2
    except PatchError as error:
        findings.wrong(step, "patch_does_not_apply", layout.PATCH, error.message)
        return
    if tree != candidate:
        findings.wrong(step, "patch_leads_elsewhere", layout.PATCH, f"it gives tree {tree}, and {candidate} was judged")
    elif await mirror.diff(run.accepted.baseline_tree, tree) != patch:
        findings.wrong(step, "patch_not_canonical", layout.PATCH, "it is not the diff that git makes of the two trees")
    if run.kind.examines:
        await _check_head(reading, run, mirror, step, candidate)
        return
    allowed = run.contract.allowed_paths if run.contract else ()
    changed = (change.path for change in await mirror.changes(run.accepted.baseline_tree, tree))
    for path in scope.outside(allowed, changed):  # 3
        findings.wrong(step, "path_out_of_scope", layout.PATCH, f"{display(path)} is outside the contract's paths")
    await _check_revert(reading, run, mirror, step, candidate)
    await _check_source(reading, run, mirror, step, candidate)


async def _check_revert(reading: Reading, run: Run, mirror: Mirror, step: int, candidate: str) -> None:
    reverted = run.contract.reverts if run.contract is not None else None
    if reverted is None:
        return
    try:
        fault = await revert_fault(mirror, reverted.run_id, reverted.commit, run.accepted.baseline_commit, candidate)
    except GitError:
        reading.notes.append(f"that the change reverts {reverted.run_id}: the repository has no longer its commit")
        return
    if fault:
        reading.findings.wrong(step, "patch_leads_elsewhere", layout.PATCH, fault)


async def _check_head(reading: Reading, run: Run, mirror: Mirror, step: int, candidate: str) -> None:
    """Compare the candidate of a review with the head that its order names, and that of a test with the baseline.

    Where people could vote on a review, its order must name every author.
    """
    source = run.contract.source_branch if run.contract is not None else None
    tree = run.accepted.baseline_tree
    try:
        if source is not None:
            await mirror.ensure(source.head)
            tree = await mirror.tree_of(source.head)
            if result_rules(run) and (fault := await authors_fault(mirror, source)):
                reading.findings.wrong(step, "source_differs", layout.CONTRACT, fault)
    except GitError as error:
        reading.findings.incomplete(step, "baseline_missing", layout.CONTRACT, error.message)
        return
    if tree != candidate:
        words = f"the examined commit has tree {tree}, and {candidate} was judged"
        reading.findings.wrong(step, "patch_leads_elsewhere", layout.GIT_CANDIDATE, words)


async def _check_source(reading: Reading, run: Run, mirror: Mirror, step: int, candidate: str) -> None:
    """Compare with the head of the change request; its ref may have moved since."""
    source = run.contract.change_request if run.contract is not None else None
    if source is None:
        return
    try:
        fault = await source_fault(mirror, source, run.accepted.baseline_commit, candidate)
    except GitError:
        reading.notes.append(f"that the change is that of {source.ref}: the repository has no longer commit {source.head}")
        return
    if fault:
        reading.findings.wrong(step, "patch_leads_elsewhere", layout.PATCH, fault)


async def _check_landed(reading: Reading, run: Run, mirror: Mirror, step: int, commit: str) -> None:
    findings = reading.findings
    try:
        await mirror.ensure(commit)  # 4
    except GitError as error:
        findings.incomplete(step, "landed_missing", layout.GIT_LANDED, error.message)
        return
    queued = run.landed is not None and run.landed.mode == "queue"
    for words in await (_queued_faults(run, mirror, commit) if queued else _landing_faults(run, mirror, commit)):
        findings.wrong(step, "landed_differs", layout.GIT_LANDED, words)
    await _check_ref(reading, run, mirror, step, commit)  # 5
    trailers = dict(_TRAILER.findall(await mirror.message(commit)))  # 6
    digest = hashlib.sha256(codec.encode(run.contract)).hexdigest() if run.contract is not None else ""
    events = {f"{record.seq}:{record.hash}" for record in reading.records}
    if run.landed is not None and run.landed.found:
        reading.notes.append("that the landed commit names an event of the chain: it landed before the ledger was restored")
        same = trailers.get("Run") == run.run_id
    else:
        same = (trailers.get("Run"), trailers.get("Contract")) == (run.run_id, f"sha256:{digest}") and trailers.get(
            "Event-Chain"
        ) in events
    if not same:
        findings.wrong(step, "trailers_differ", layout.GIT_LANDED, "the landed commit's trailers are not about this run")


async def _landing_faults(run: Run, mirror: Mirror, commit: str) -> list[str]:
    found = []
    tree, parents = await mirror.tree_of(commit), await mirror.parents(commit)
    if run.candidate is None or tree != run.candidate.tree:
        found.append(f"the landed commit has tree {tree}")
    if parents != (run.accepted.baseline_commit,):
        found.append(f"the landed commit's parents are {', '.join(parents)}")
    return found


async def _queued_faults(run: Run, mirror: Mirror, commit: str) -> list[str]:
    landed, candidate = run.landed, run.candidate
    tree, parents = await mirror.tree_of(commit), await mirror.parents(commit)
    if landed is None or candidate is None or tree != landed.tree or len(parents) != 1:
        return [f"the landed commit has tree {tree} and {len(parents)} parents"]
    found = []
    await mirror.ensure(parents[0])
    before = await mirror.tree_of(parents[0])
    written = await mirror.changes(before, tree)
    if not set(written) <= set(await mirror.changes(run.accepted.baseline_tree, candidate.tree)):
        found.append("the landed commit changes other content than the candidate")
    if landed.previous is None or not await mirror.descends(commit, landed.previous):
        found.append(f"the landed commit does not descend from {landed.previous or 'a commit'}, where the branch was")
    return found


async def _check_ref(reading: Reading, run: Run, mirror: Mirror, step: int, commit: str) -> None:
    ref = run.landed.ref if run.landed is not None else ""
    current = await mirror.current(ref) if ref else None
    if current is None:
        reading.notes.append(f"that the commit is on {ref or 'a ref'}: the repository has no longer such a ref")
        return
    await mirror.ensure(current)
    if not await mirror.descends(current, commit):
        words = f"{ref} is at {current}, which does not hold the landed commit {commit}"
        reading.findings.wrong(step, "landed_not_on_ref", layout.GIT_LANDED, words)
