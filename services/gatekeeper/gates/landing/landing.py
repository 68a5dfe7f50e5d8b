"""Landing: the candidate becomes a commit on its ref by compare-and-swap, and its tree is compared with the tested tree."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gatewright.contracts.vocabulary import Repository
from gatewright.errors import GitError, HostError
from gatewright.git.access.signing import UNAVAILABLE, without_signer
from gatewright.git.mirror import Mirror
from gatewright.git.refs import folder_names
from gatewright.host_errors import is_waited_for
from gatewright.rules.gate_evidence import COMMIT, TREE
from gatewright.rules.landing import commit_message, landing_ref
from gatewright.run.events import CandidateComposed
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder

#: Push attempts that another gatekeeper's push may disturb, and the pause between two of them in seconds.
TRIES = 5
PAUSE = 0.2
#: Maximum number of commits searched on the ref for an earlier landing of this run.
LOOKED_AT = 10_000
#: Time of the commit that a trial signature is for; a constant, so that it is one object where signatures are the same.
TRIAL_TIME = datetime(2001, 1, 1, tzinfo=UTC)

_RUN = re.compile(r"^Gatewright-Run: (\S+)$", re.MULTILINE)  # noqa: TID251 - linear: each try ends where the next one begins


@dataclass(frozen=True, slots=True)
class LandingOutcome:
    """``commit`` is empty when nothing landed or nothing was to land; ``previous`` is the ref's earlier commit.

    ``found``: the commit was already on the ref, landed by this run at a time that the ledger does not know.
    """

    commit: str = ""
    tree: str = ""
    ref: str = ""
    previous: str | None = None
    found: bool = False


async def judge_target(context: GateContext, repository: Repository, baseline: str, mirror: Mirror) -> None:
    """Check that a change of ``baseline`` could land on its target now, before any work is done for it.

    1. Every rule of the repository is supported here, and the repository is writable.
    2. No existing branch conflicts with the name of a new one.
    3. The branch to move exists.
    4. It points to the baseline, from where the landing moves it, unless the change goes through the merge queue.
    5. No worktree has it checked out.
    6. Commits can be signed, where the operator's policy or the repository requires signatures.

    The landing itself detects later changes.

    Raises:
        GitError: the repository cannot be read.
    """
    report = context.report
    ref = landing_ref(report.run_id, repository)
    if not ref:
        return
    rules = await mirror.target_rules()
    report.checked("target.rules")
    for fault in rules.faults():  # 1
        report.violate(fault.reason, "target.rules", fault.message)
    for hook in rules.reacting:
        report.remark("target.rules", f"{hook} of the target does not run")
    await _judge_signing(report, baseline, mirror)  # 6
    if not repository.moves_target:
        await _judge_name(context, ref, mirror)  # 2
        return
    report.checked("target", ref)
    current = await mirror.current(ref)
    if current is None:  # 3
        report.violate("target_missing", "target", f"the repository has no {ref}")
    elif current != baseline and repository.landing == "target":  # 4
        words = f"{ref} is at {current[:12]}, and the run starts from {baseline[:12]}: a change lands on what it was made from"
        report.violate("target_elsewhere", "target", words)
    elif (place := await mirror.checked_out(ref)) is not None:  # 5
        report.violate("target_checked_out", "target", f"{ref} is checked out in {place}")


async def _judge_signing(report: GateReportBuilder, baseline: str, mirror: Mirror) -> None:
    """Sign a commit that goes nowhere: only that shows that program, key and agent are usable."""
    signs = await mirror.signs()
    if not signs and not await mirror.demands_signatures():
        return
    report.checked("target.signatures")
    if not signs:
        words = "the target accepts signed commits only, and repositories.json has no key to sign with"
        report.violate("target_demands_signatures", "target.signatures", words)
        return
    try:
        tree = await mirror.tree_of(baseline)
        await mirror.commit_tree(tree, parent=baseline, message="trial", when=TRIAL_TIME, signed=True)
    except GitError as error:
        if error.reason != UNAVAILABLE:
            raise
        report.violate(error.reason, "target.signatures", error.message)


async def _judge_name(context: GateContext, ref: str, mirror: Mirror) -> None:
    """Check for a branch that is named like a folder of ``ref``: git stores one as a file and the other as a folder."""
    report = context.report
    report.checked("target.name", ref)
    names = [name for name in folder_names(ref) if name.startswith("refs/heads/")]
    for name in names:
        if await mirror.current(name) is not None:
            words = f"the branch {name} is in the way of {ref}: rename it (git branch -m), or land with --land target"
            report.violate("ref_in_the_way", "target.name", words)


async def land(context: ChangeContext, run: Run) -> LandingOutcome:
    """Land the candidate.

    Idempotent: a repetition makes the same commit and finds it landed, so a crash in between is harmless. A signature makes
    another commit each time, and a ledger restored from a backup too; then the commit that this run landed earlier is used. If
    that has another tree, nothing lands (``landed_before``).
    """
    report, contract, mirror = context.report, context.contract, context.mirror
    candidate, repository = run.candidate, contract.repository
    if candidate is None or repository is None:
        report.violate("gate_not_evaluated", "landing", "there is no candidate to land")
        return LandingOutcome()
    ref = landing_ref(run.run_id, repository)
    baseline = run.accepted.baseline_commit
    if not ref:
        report.saw(TREE, candidate.tree)
        return LandingOutcome(tree=candidate.tree)
    commit = await _commit(context, run, candidate)
    tree = await mirror.tree_of(commit)
    if tree != candidate.tree:
        report.violate("landed_tree_differs", "same_tree", f"commit {commit} has tree {tree}, tested was {candidate.tree}")
        return LandingOutcome()
    previous = baseline if repository.landing == "target" else None
    earlier = None
    try:
        await push_commit(commit, ref, previous, mirror)
    except (GitError, HostError) as error:
        if is_waited_for(error):
            raise
        earlier = await _landed_before(run.run_id, baseline, ref, mirror) if error.reason == "landing_conflict" else None
        if earlier is None:
            report.violate(error.reason, "landing", error.message)
            return LandingOutcome()
        if await mirror.tree_of(earlier) != tree:
            words = f"{ref} holds {earlier}, another change that this run landed before, of which the ledger does not know"
            report.violate("landed_before", "landing", words)
            return LandingOutcome()
    report.saw(COMMIT, earlier or commit)
    report.saw(TREE, tree)
    found = earlier is not None and not await _is_same_but_for_signer(earlier, commit, mirror)
    return LandingOutcome(earlier or commit, tree, ref, previous, found)


async def has_landed(context: ChangeContext, run: Run) -> bool:
    """Return whether the exact commit is on its ref already, because of a crash before the ledger recorded it.

    A signed commit is compared without its signer, as signatures differ each time. That needs no key.

    Raises:
        GitError: the repository cannot be read.
    """
    candidate, repository = run.candidate, context.contract.repository
    ref = landing_ref(run.run_id, repository) if repository is not None else ""
    if candidate is None or not ref:
        return False
    mirror = context.mirror
    commit = await _commit(context, run, candidate, signed=False)
    if await _holds(commit, ref, mirror):
        return True
    earlier = await _landed_before(run.run_id, run.accepted.baseline_commit, ref, mirror)
    return earlier is not None and await _is_same_but_for_signer(earlier, commit, mirror)


async def _commit(context: ChangeContext, run: Run, candidate: CandidateComposed, *, signed: bool = True) -> str:
    """Create the commit to land: deterministic for the same run, except for a signature. Raises GitError."""
    return await context.mirror.commit_tree(
        candidate.tree,
        parent=run.accepted.baseline_commit,
        message=commit_message(run, context.contract),
        when=datetime.fromisoformat(run.created_at),
        author=context.contract.author,
        signed=signed,
    )


async def _is_same_but_for_signer(one: str, other: str, mirror: Mirror) -> bool:
    """Return whether two commits are the same except for committer and signature."""
    raw = await mirror.raw_objects((one, other), "commit")
    return without_signer(raw[one]) == without_signer(raw[other])


async def push_commit(commit: str, ref: str, previous: str | None, mirror: Mirror) -> None:
    """Move the ref, even while another gatekeeper moves it to the same commit. Raises GitError.

    A push that is refused although the ref did not move collided with another push, and is retried, so that the run does not
    fail here while it lands there. A ref that has moved on from the commit contains it: the change landed before the ledger
    recorded it.
    """
    for attempt in range(1, TRIES + 1):
        try:
            await mirror.push(commit, ref, expected=previous)
        except GitError as error:
            if error.reason == "landing_refused" and attempt < TRIES:
                await asyncio.sleep(PAUSE * attempt)
                continue
            if error.reason == "landing_conflict" and await _holds(commit, ref, mirror):
                return
            raise
        return


async def _holds(commit: str, ref: str, mirror: Mirror) -> bool:
    current = await mirror.current(ref)
    if current is None:
        return False
    await mirror.ensure(current)
    return await mirror.descends(current, commit)


async def _landed_before(run_id: str, baseline: str, ref: str, mirror: Mirror) -> str | None:
    """Return the commit on ``ref`` with the baseline as parent that carries this run's id."""
    current = await mirror.current(ref)
    if current is None:
        return None
    await mirror.ensure(current)
    for commit in await mirror.children(baseline, current, LOOKED_AT):
        run_ids = _RUN.findall(await mirror.message(commit))
        if await mirror.parents(commit) == (baseline,) and run_ids == [run_id]:
            return commit
    return None
