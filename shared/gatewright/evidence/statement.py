"""What the gatekeeper signs about a bundle: an in-toto Statement v1 whose predicate is a SLSA verification summary.

Subjects: the manifest (and through it every file), the canonical patch, the landed commit and its tree. Any in-toto or SLSA
tool can read the verdict; nothing in it is known only to Gatewright. Pure; the signature itself is made in ``signing.py``.
"""

from __future__ import annotations

import hashlib

import msgspec

from gatewright.evidence import layout
from gatewright.evidence.closing_reports import outcomes
from gatewright.evidence.history import History

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
VERIFIER = "urn:gatewright:gatekeeper"
POLICY = "urn:gatewright:policies"


class Subject(msgspec.Struct, frozen=True):
    """Something that the statement is about, fixed by digest (in-toto ResourceDescriptor)."""

    name: str
    digest: dict[str, str]


class Verifier(msgspec.Struct, frozen=True):
    id: str
    version: dict[str, str]


class Policy(msgspec.Struct, frozen=True):
    uri: str
    digest: dict[str, str]


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A SLSA verification summary. ``verified_levels`` names the gates that were passed; ``FAILED`` alone for a failed run."""

    verifier: Verifier
    time_verified: str
    resource_uri: str
    policy: Policy
    verification_result: str
    verified_levels: tuple[str, ...]


class Statement(msgspec.Struct, frozen=True, rename="camel"):
    type: str = msgspec.field(name="_type")
    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: Summary


def make_statement(history: History, manifest: bytes, patch_sha256: str) -> bytes:
    """The bytes to sign, in canonical JSON: one bundle has exactly one statement, so a checker can make it again.

    ``manifest`` are the exact bytes of ``manifest.json``, ``patch_sha256`` is the digest of ``patch.diff``.
    """
    run = history.run
    subjects = [
        Subject(layout.MANIFEST, {"sha256": hashlib.sha256(manifest).hexdigest()}),
        Subject(layout.PATCH, {"sha256": patch_sha256}),
    ]
    if run.landed and run.landed.commit:
        subjects.append(Subject(run.landed.ref or "commit", {"gitCommit": run.landed.commit}))
    if run.landed and run.landed.tree:
        subjects.append(Subject("tree", {"gitTree": run.landed.tree}))
    passed = [name for name, outcome in msgspec.structs.asdict(outcomes(history.decisive)).items() if outcome.passed]
    succeeded = run.status == "SUCCESS"
    statement = Statement(
        type=STATEMENT_TYPE,
        subject=tuple(subjects),
        predicate_type=PREDICATE_TYPE,
        predicate=Summary(
            verifier=Verifier(VERIFIER, run.accepted.versions),
            time_verified=run.finished_at,
            resource_uri=run.accepted.repository_url,
            policy=Policy(POLICY, {"sha256": run.accepted.policy_sha256}),
            verification_result="PASSED" if succeeded else "FAILED",
            verified_levels=tuple(f"GATEWRIGHT_{name.upper()}" for name in passed) if succeeded else ("FAILED",),
        ),
    )
    return msgspec.json.encode(statement, order="sorted")
