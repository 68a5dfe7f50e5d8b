"""Target ref and commit message of a landing."""

from __future__ import annotations

import hashlib
from typing import Final

from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import Repository
from gatewright.git.refs import RUN_BRANCHES
from gatewright.run.state import Run

#: Most characters of a commit's subject.
_SUBJECT: Final = 72


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


def commit_subject(order: RunRequest | TaskContract) -> str:
    """Return the subject of the commit that the order leads to; empty without words."""
    text = order.inputs.spec if isinstance(order, TaskContract) else order.request
    # The reason for a revert is a paragraph of its own, and so is the text of a change request.
    title = text.partition("\n\n")[0] if order.reverts is not None or order.change_request is not None else text
    words = " ".join("".join(char if char.isprintable() else " " for char in title).split())
    # A word that is cut could become the id of another requirement.
    return words if len(words) <= _SUBJECT else words[: _SUBJECT + 1].rpartition(" ")[0] or words[:_SUBJECT]


def commit_message(run: Run, contract: TaskContract) -> str:
    """Return the commit message: subject from the contract, and trailers that link the commit to the evidence.

    The chain's head is that of the run before landing, or when it entered the merge queue, so repeating a landing after a crash
    makes the same commit.
    """
    seq, head = (run.seq, run.head) if run.queued is None else (run.queued.seq, run.queued.head)
    source, reverts = contract.source_branch, contract.reverts
    subject = commit_subject(contract) or run.run_id
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
