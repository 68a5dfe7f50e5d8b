"""What a verification says where a tombstone stands: the bundle is gone on purpose, and a trusted key has signed that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import tombstone
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.verification.findings import Verification, VerificationFinding
from gatewright.evidence.verification.reading import runs_named

#: The code of the one finding about a bundle that was pruned in order.
PRUNED = "pruned"


def look_for_tombstone(bundle: Path, trusted: Sequence[PublicKey]) -> Verification | VerificationFinding | None:
    """The whole verification of a pruned bundle; a finding where a tombstone stands that is none; None where none stands."""
    try:
        found = tombstone.read_tombstone(bundle, trusted)
    except MalformedError as error:
        return VerificationFinding(1, "malformed", error.reason, tombstone.FILE, error.message)
    except VerificationError as error:
        return VerificationFinding(1, "not_verified", error.reason, tombstone.FILE, error.message)
    if found is None:
        return None
    stone, key = found
    if (asked := runs_named(bundle)) - {stone.run_id}:
        words = f"the folder is called {min(asked)}, and its tombstone is that of {stone.run_id}"
        return VerificationFinding(1, "not_verified", "other_run", tombstone.FILE, words)
    if key.was_retired_by(stone.pruned_at):
        words = f"the key was retired {key.retired}, and the bundle was removed {stone.pruned_at}"
        return VerificationFinding(1, "not_verified", "signed_after_retirement", tombstone.FILE, words)
    words = f"the bundle was removed on {stone.pruned_at} by {stone.pruned_by}: {stone.reason}"
    return Verification(
        location=bundle,
        findings=(VerificationFinding(1, "incomplete", PRUNED, tombstone.FILE, words),),
        run_id=stone.run_id,
        status=stone.status,
        signer=key.key_id,
        manifest_sha256=stone.manifest_sha256,
        files=1,
        size=0,
        checked=("1 tombstone",),
        unchecked=("all that the bundle held: it is gone; the ledger and the artifact store may still have it",),
    )
