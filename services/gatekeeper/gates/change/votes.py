"""Evidence of votes, compared with the judged patch."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts.people.approvals import SignedDecision
from gatewright.rules.approvals import JudgedDecision
from gatewright.rules.reviewing import check_anchors
from gatewright.run.state import Run
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache


async def judged_patch(run: Run, decisions: Sequence[SignedDecision], artifacts: ArtifactCache) -> bytes:
    """Return the patch of the run's candidate; fetch it only when a decision may be a vote.

    Raises:
        BusError: the artifact store does not answer.
    """
    wanted = run.candidate is not None and any('"vote"' in each.document for each in decisions)
    return await artifacts.get_artifact(run.candidate.patch) if wanted and run.candidate is not None else b""


def check_votes(run: Run, judged: Sequence[JudgedDecision], patch: bytes) -> None:
    """Check that the evidence of every vote exists.

    Raises:
        DeniedError: an anchor refers to nothing in the patch (``anchor_unresolved``).
    """
    for each in judged:
        if each.decision.vote is not None:
            check_anchors(run, each.decision.vote, patch)
