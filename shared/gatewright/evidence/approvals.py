"""What a person approves with a key: exactly these new contents of these paths in this repository, until a moment.

A DSSE envelope around an in-toto Statement, as everything that is signed here. It is given to a run as an input artifact, so
the bundle has it. Whose keys may approve is the gatekeeper's to know. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from gatewright.errors import MalformedError
from gatewright.evidence.signing.envelopes import Signer, open_envelope
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.statement import STATEMENT_TYPE
from gatewright.foreign_documents import UnreadableDocumentError, read_json

APPROVAL_TYPE = "urn:gatewright:approval:v1"
#: The name of the input artifact that holds one.
APPROVAL = "approval"
#: The rule whose violations an approval heals, and the beginning of the evidence that says what is to be approved.
CI_RULE = "protected_paths.ci"
TO_APPROVE = "to approve "
#: Bytes of one approval.
LARGEST = 1 << 20


class ApprovedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One path before and after: ``mode object-id``, zeros where it is absent. ``path`` is shown as in reports."""

    path: str
    old: str
    new: str


class ContentApproval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``expires_at`` is RFC 3339; ``run_id`` is the run whose refusal was looked at."""

    what: Literal["ci"]
    repository: str
    changes: tuple[ApprovedChange, ...]
    approved_by: str
    reason: str
    expires_at: str
    run_id: str


class _Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    digest: dict[str, str]


class _Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: str = msgspec.field(name="_type")
    subject: tuple[_Subject, ...]
    predicate_type: str
    predicate: ContentApproval


def sign_approval(approval: ContentApproval, signer: Signer) -> bytes:
    """The envelope. The same bytes for the same approval and key."""
    subjects = tuple(_Subject(change.path, {"gitBlob": change.new.split(" ")[1]}) for change in approval.changes)
    statement = _Statement(type=STATEMENT_TYPE, subject=subjects, predicate_type=APPROVAL_TYPE, predicate=approval)
    return signer.envelope(msgspec.json.encode(statement, order="sorted"))


def open_approval(envelope: bytes, approvers: Sequence[PublicKey]) -> tuple[ContentApproval, PublicKey]:
    """The approval in ``envelope`` and the key of ``approvers`` that signed it.

    Raises MalformedError (``bad_envelope``, ``bad_approval``), VerificationError (``untrusted_key``, ``bad_signature``, ...).
    """
    if len(envelope) > LARGEST:
        raise MalformedError(f"an approval has at most {LARGEST} bytes", code="bad_approval")
    payload, key = open_envelope(envelope, approvers)
    try:
        statement = read_json(payload, _Statement)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not an approval: {error}", code="bad_approval") from error
    # The same key signs bundles: what was signed as something else is no approval.
    if statement.type != STATEMENT_TYPE or statement.predicate_type != APPROVAL_TYPE:
        raise MalformedError("a statement of another kind, not an approval", code="bad_approval")
    return statement.predicate, key


def has_expired(approval: ContentApproval, now: datetime) -> bool:
    """Whether the approval has ended, or says nothing that can be read about it."""
    try:
        ends = datetime.fromisoformat(approval.expires_at)
    except ValueError:
        return True
    return ends.tzinfo is None or ends <= now
