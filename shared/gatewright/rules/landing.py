"""Target ref and commit message of a landing."""

from __future__ import annotations

import hashlib

from gatewright.contracts import TaskContract, codec
from gatewright.contracts.vocabulary import Repository
from gatewright.git.refs import RUN_BRANCHES
from gatewright.run.state import Run


def landing_ref(run_id: str, repository: Repository) -> str:
    """Return the full name of the ref that the run lands on; empty for none."""
    match repository.landing:
        case "branch":
            return RUN_BRANCHES + run_id
        case "target" | "queue":
            return repository.target_ref or ""
        case _:
            return ""


def lands_by_queue(run: Run) -> bool:
    """Return whether the run's change goes through the merge queue of its target."""
    repository = run.contract.repository if run.contract is not None else None
    return repository is not None and repository.landing == "queue"


def commit_message(run: Run, contract: TaskContract) -> str:
    """Return the commit message: subject from the contract, and trailers that link the commit to the evidence.

    The chain's head is that of the run before landing, or when it entered the merge queue, so repeating a landing after a crash
    makes the same commit.
    """
    seq, head = (run.seq, run.head) if run.queued is None else (run.queued.seq, run.queued.head)
    source, reverts = contract.source_branch, contract.reverts
    # The reason for a revert is a paragraph of its own, and so is the text of a change request.
    titled = reverts is not None or contract.change_request is not None
    title = contract.inputs.spec.partition("\n\n")[0] if titled else contract.inputs.spec
    words = "".join(char if char.isprintable() else " " for char in title)
    subject = " ".join(words.split())[:72].rstrip() or run.run_id
    digest = hashlib.sha256(codec.encode(contract)).hexdigest()
    return (
        f"{subject}\n\n"
        f"Gatewright-Run: {run.run_id}\n"
        f"Gatewright-Contract: sha256:{digest}\n"
        f"Gatewright-Event-Chain: {seq}:{head}\n"
        + "".join(f"Gatewright-Requirement: {requirement}\n" for requirement in dict.fromkeys(contract.requirement_ids))
        + (f"Gatewright-Source: {source.head}\n" if source is not None else "")
        + (f"Gatewright-Reverts: {reverts.run_id}\n" if reverts is not None else "")
    )
