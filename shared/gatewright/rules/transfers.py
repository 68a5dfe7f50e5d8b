"""How much a transfer to the providers of models risks, who has to approve it, and what a task may send then. Pure."""

from __future__ import annotations

import hashlib

from gatewright.contracts import codec
from gatewright.contracts.transfers import TransferLeave, TransferManifest, TransferRisk
from gatewright.ledger.run import Run

#: The policy file; a run that was accepted under one has manifests.
FILE = "transfers.json"
_SHOWN = 8


def risk_of(manifest: TransferManifest) -> TransferRisk:
    """1. a secret among the sources, or a protected class that the task is about: high  2. more bytes than are of low risk, or
    some that were not looked at: medium  3. low."""
    if manifest.secrets or manifest.protected:
        return "high"
    if manifest.bytes > manifest.low_risk_bytes or manifest.unscanned_bytes:
        return "medium"
    return "low"


def asks_person(manifest: TransferManifest) -> bool:
    """Whether a person has to approve it: not where all stays with the operator, nor low risk where policy lets that pass.

    The risk is told anew: what a document says of itself lets nothing pass.
    """
    if all(each.internal for each in manifest.destinations):
        return False
    return manifest.mode == "manual" or risk_of(manifest) != "low"


def manifest_digest(manifest: TransferManifest) -> str:
    return hashlib.sha256(codec.encode(manifest)).hexdigest()


def transfer_words(run: Run) -> str:
    """What a person is asked about, each manifest by its digest; empty when there is nothing to ask."""
    asked = [each for each in run.transfers if asks_person(each)]
    digests = ", ".join(manifest_digest(each) for each in asked)
    return f"manifests {digests}: {'; '.join(map(_words, asked))}" if asked else ""


def leave_for(run: Run, role: str) -> TransferLeave | None:
    """What a task of ``role`` may send; None where no manifest was made for it. Work is given out only when all is approved."""
    manifest = next((each for each in run.transfers if each.role == role), None)
    if manifest is None:
        return None
    return TransferLeave(
        run_id=manifest.run_id,
        role=manifest.role,
        manifest_sha256=manifest_digest(manifest),
        destinations=manifest.destinations,
        most_bytes=manifest.most_bytes,
    )


def _words(manifest: TransferManifest) -> str:
    outside = [f"{each.model} at {each.endpoint}" for each in manifest.destinations if not each.internal]
    more = f" and {len(outside) - _SHOWN} more" if len(outside) > _SHOWN else ""
    found = [f"{manifest.secrets} secrets"] if manifest.secrets else []
    found += [f"protected: {', '.join(manifest.protected)}"] if manifest.protected else []
    found += [f"{manifest.unscanned_bytes} bytes not looked at for secrets"] if manifest.unscanned_bytes else []
    about = f", {', '.join(found)}" if found else ""
    return (
        f"the {manifest.role} sends {manifest.bytes} bytes to {', '.join(outside[:_SHOWN])}{more} ({manifest.risk} risk{about})"
    )
