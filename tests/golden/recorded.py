"""The runs whose outputs are kept: their ids, times, keys and bytes never change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from gatewright.run.state import run_id_of
from tests.evidence.approved_runs import ApprovedRun, make_approved
from tests.evidence.candidate_runs import CandidateRuns, make_candidates
from tests.evidence.recorded_runs import START, GitFacts, RecordedRun, make_aborted, make_failed, make_fixed, make_success

PATCH = b"""diff --git a/src/a.py b/src/a.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@ def f():
 def f():
-    return "<b>2</b>"
+    result = "<b>3</b>"
+    return result
 # end
"""
#: The private key of the gatekeeper that sealed them.
SECRET = b"\x07" * 32


def _landed() -> RecordedRun:
    git = GitFacts(patch=PATCH, names=(b"src/a.py",))
    return make_success(git, RecordedRun(key="landed", git=git))


#: A run that landed; one that its diff gate refused; one that a person approved; one of two candidates; one that landed in
#: its second attempt, with file names that have to be escaped; one that a person stopped.
MAKERS: dict[str, Callable[[], RecordedRun]] = {
    "landed": _landed,
    "failed": lambda: make_failed(run=RecordedRun(key="failed")),
    "approved": lambda: make_approved(run=ApprovedRun(key="approved")),
    "candidates": lambda: make_candidates(run=CandidateRuns(key="candidates")),
    "fixed": lambda: make_fixed(RecordedRun(key="fixed")),
    "aborted": lambda: make_aborted(RecordedRun(key="aborted")),
}
RUN_IDS = {name: run_id_of(name) for name in MAKERS}


def write_key(home: Path) -> keys.PrivateKey:
    """The key of the gatekeeper, in its place below ``home``."""
    path = keys.home_key(home)
    path.parent.mkdir(mode=0o700, parents=True)
    secret = Ed25519PrivateKey.from_private_bytes(SECRET)
    path.touch(mode=0o600)
    path.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    os.utime(path, (START.timestamp(),) * 2)
    return keys.load(path)


async def seal_all(home: Path) -> dict[str, RecordedRun]:
    """The runs as the ledger has them once they are sealed; their bundles lie below ``home``."""
    signer, writer = Signer(write_key(home)), BundleWriter(home / "runs")
    recorded = {name: make() for name, make in MAKERS.items()}
    for run in recorded.values():
        sealed = await writer.seal(run.run, run.transitions, run.store, signer, run.sequences)
        named = e.BundleSealed(manifest_sha256=sealed.manifest_sha256, signer=sealed.signer, location=f"/srv/runs/{run.run_id}")
        run.step(e.LabelledEvent(named))
    return recorded
