"""Landing: the candidate becomes a commit on its ref by compare-and-swap, and its tree is compared with the tested one."""

from __future__ import annotations

import asyncio
from datetime import datetime

from gatewright.contracts import TaskContract
from gatewright.errors import GitError
from gatewright.git.mirror import Mirror
from gatewright.ledger.run import Run
from gatewright.rules.landing import commit_message, landing_ref
from services.gatekeeper.gates.judgement import Judgement

#: Pushes that another gatekeeper's own may get in the way of, and the pause between two of them in seconds.
TRIES = 5
PAUSE = 0.2


async def land(run: Run, contract: TaskContract, mirror: Mirror, found: Judgement) -> tuple[str, str, str, str | None]:
    """Land the candidate; returns commit, tree, ref and what the ref pointed at before.

    Doing it again gives the same commit and finds it landed: a crash in between is harmless.
    """
    candidate, repository = run.candidate, contract.repository
    if candidate is None or repository is None:
        found.violate("gate_not_evaluated", "landing", "there is no candidate to land")
        return "", "", "", None
    ref = landing_ref(run.run_id, repository)
    baseline = run.accepted.baseline_commit
    if not ref:
        found.saw("tree", candidate.tree)
        return "", candidate.tree, "", None
    when = datetime.fromisoformat(run.created_at)
    commit = await mirror.commit_tree(candidate.tree, parent=baseline, message=commit_message(run, contract), when=when)
    tree = await mirror.tree_of(commit)
    if tree != candidate.tree:
        found.violate("landed_tree_differs", "same_tree", f"commit {commit} has tree {tree}, tested was {candidate.tree}")
        return "", "", "", None
    previous = baseline if repository.landing == "target" else None
    try:
        await _push(commit, ref, previous, mirror)
    except GitError as error:
        found.violate(error.reason, "landing", error.message)
        return "", "", "", None
    found.saw("commit", commit)
    found.saw("tree", tree)
    return commit, tree, ref, previous


async def _push(commit: str, ref: str, previous: str | None, mirror: Mirror) -> None:
    """Move the ref, whoever else is moving it to the same commit. Raises GitError.

    A push that was refused while the ref stood still met another one: it is tried again, so that the run does not fail here
    while it lands there. A ref that has moved on from the commit holds it: it had landed, and the ledger had not heard.
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
