"""The note of a commit, opened: both signed statements of a run that landed, checked against trusted keys. Pure.

A note proves what its signer recorded: which commit and which tree a run landed, and that every gate passed. It does not hold
the bundle; ``verify`` checks that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import open_envelope, payload_of
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.statement import CHECKS_TYPE, STATEMENT_TYPE, SUMMARY_TYPE, VERIFIER, Checks, Statement, Summary
from gatewright.foreign_documents import UnreadableDocumentError, read_json

Predicate = TypeVar("Predicate", Summary, Checks)
#: Largest note in bytes. The statements of a run with a thousand acceptance tests need a tenth of it.
MAX_NOTE_BYTES = 1 << 20
_LEVEL = "GATEWRIGHT_"
_LANDING = "gate/landing"


@dataclass(frozen=True, slots=True)
class CommitProof:
    """What two valid statements prove about a commit.

    ``levels`` are the gates that passed, ``warned`` the acceptance tests that failed without being required. Digests are
    lower-case hexadecimal, ``ended`` is RFC 3339, ``repository`` the address that the run used.
    """

    commit: str
    tree: str
    manifest_sha256: str
    signer: str
    repository: str
    ended: str
    policy_sha256: str
    levels: tuple[str, ...]
    passed: tuple[str, ...]
    warned: tuple[str, ...]


def claimed_tree(note: bytes) -> str:
    """Return the tree that a note names, unverified; empty for none."""
    try:
        statement = read_json(payload_of(note.partition(b"\n")[0]), Statement)
    except (MalformedError, UnreadableDocumentError):
        return ""
    return next((subject.digest["gitTree"] for subject in statement.subject if "gitTree" in subject.digest), "")


def open_note(note: bytes, trusted: Sequence[PublicKey]) -> CommitProof:
    """Return what a note proves.

    1. It has exactly two lines: the envelopes of the summary and of the checks.
    2. One trusted key signed both.
    3. Both are in-toto statements about the same subjects: one manifest, one commit, one tree.
    4. The summary is Gatewright's: the run succeeded, and at least one gate passed.
    5. No check failed, and the landing gate passed.
    6. The key was not retired when the run ended.

    Raises:
        MalformedError: ``note_malformed``, ``bad_envelope``, ``bad_statement``.
        VerificationError: ``no_trusted_key``, ``untrusted_key``, ``bad_signature``, ``signer_differs``,
            ``statements_contradict``, ``run_not_passed``, ``signed_after_retirement``.
    """
    lines = note.split(b"\n")
    if len(lines) != 3 or lines[2]:  # 1
        words = "the note is not the two lines that `gatewright attach` writes: attach the bundle again"
        raise MalformedError(words, code="note_malformed")
    (first, key), (second, other) = (open_envelope(line, trusted) for line in lines[:2])  # 2
    if key != other:
        raise VerificationError("two keys signed the statements of one note", code="signer_differs")
    summary, statement = _statement_of(first, SUMMARY_TYPE, Summary)  # 3
    checks, beside = _statement_of(second, CHECKS_TYPE, Checks)
    if statement.subject != beside.subject:
        raise VerificationError("the two statements are about different subjects", code="statements_contradict")
    if summary.verifier.id != VERIFIER:  # 4
        raise VerificationError("the summary is not that of a gatekeeper", code="statements_contradict")
    levels = summary.verified_levels
    if summary.verification_result != "PASSED" or not levels or not all(level.startswith(_LEVEL) for level in levels):
        raise VerificationError("the run did not succeed", code="run_not_passed")
    if checks.result == "FAILED" or checks.failed_tests or _LANDING not in checks.passed_tests:  # 5
        raise VerificationError("a gate or a required test of the run did not pass", code="run_not_passed")
    if key.was_retired_by(summary.time_verified):  # 6
        words = f"the key was retired {key.retired}, and the run ended {summary.time_verified}"
        raise VerificationError(words, code="signed_after_retirement")
    return CommitProof(
        commit=_only_digest(statement, "gitCommit"),
        tree=_only_digest(statement, "gitTree"),
        manifest_sha256=_only_digest(statement, "sha256", layout.MANIFEST),
        signer=key.key_id,
        repository=summary.resource_uri,
        ended=summary.time_verified,
        policy_sha256=summary.policy.digest.get("sha256", ""),
        levels=levels,
        passed=checks.passed_tests,
        warned=checks.warned_tests,
    )


def _statement_of(payload: bytes, kind: str, predicate: type[Predicate]) -> tuple[Predicate, Statement]:
    """Decode a signed statement with a predicate of this kind. Raises MalformedError (``bad_statement``)."""
    try:
        statement = read_json(payload, Statement)
        if (statement.type, statement.predicate_type) != (STATEMENT_TYPE, kind):
            raise MalformedError(f"a statement of {statement.predicate_type[:80]!a}, not of {kind}", code="bad_statement")
        return read_json(bytes(statement.predicate), predicate), statement
    except UnreadableDocumentError as error:
        raise MalformedError(f"what was signed is no statement: {error}", code="bad_statement") from error


def _only_digest(statement: Statement, kind: str, name: str | None = None) -> str:
    """Return the digest of the one subject of this kind. Raises VerificationError (``statements_contradict``)."""
    digests = [each.digest[kind] for each in statement.subject if kind in each.digest and name in {None, each.name}]
    if len(digests) != 1:
        raise VerificationError(f"the statements name {len(digests)} subjects of {name or kind}", code="statements_contradict")
    return digests[0]
