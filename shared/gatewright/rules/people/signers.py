"""Signers: the person of the roster behind a signature, and whether the key is valid. Pure."""

from __future__ import annotations

from datetime import datetime

from gatewright.contracts import ApproverRoster, codec
from gatewright.contracts.people.approvals import RosterKey, RosterPerson, SignedDecision
from gatewright.contracts.people.identities import same_person
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError
from gatewright.ssh_signatures import fingerprint, page_of, signer_of, verify_ssh


def signer_on(roster: ApproverRoster, signature: str, data: bytes, namespace: str, now: datetime) -> tuple[RosterPerson, str]:
    """Return the signer and the fingerprint of the key, which is valid.

    A key listed for two people belongs to neither; the roster's loader refuses it.

    Raises:
        DeniedError: the key is not on the roster or not valid.
        VerificationError: ``signature_invalid``, or a fault of a passkey.
    """
    named = signer_of(signature)
    for person in roster.people:
        for key in person.keys:
            if fingerprint(key.key) == named:
                _in_force(key, named, now)
                verify_ssh(key.key, namespace, data, signature, key.origins)
                return person, named
    raise DeniedError(f"the key {named} is not on the roster of approvers", code="approver_unknown")


def named_signer(
    roster: ApproverRoster, signed: SignedDecision, document: Document, namespace: str, named: str, now: datetime
) -> tuple[RosterPerson, str]:
    """Return the signer and the fingerprint of the key, as ``signer_on``, of a document that names its signer.

    Args:
        roster: the roster.
        signed: the signed document.
        document: the same document, decoded.
        namespace: the purpose of the signature.
        named: the person that the document names.
        now: the current time.

    Raises:
        DeniedError: ``approval_not_canonical``, ``approver_differs``, or the key is not on the roster or not valid.
        VerificationError: see ``signer_on``.
    """
    data = signed.document.encode()
    if codec.encode(document) != data:
        raise DeniedError("what was signed is not the canonical form of the document", code="approval_not_canonical")
    person, key_print = signer_on(roster, signed.signature, data, namespace, now)
    if not same_person(person.name, named):
        raise DeniedError(f"it names {named}, and the key is that of {person.name}", code="approver_differs")
    return person, key_print


def key_words(key_print: str, signed: SignedDecision) -> str:
    """Return the key of a valid signature as text; for a passkey with the page where it signed."""
    page = page_of(signed.signature)
    return f"{key_print}, by passkey on {page}" if page else key_print


def _in_force(key: RosterKey, named: str, now: datetime) -> None:
    if key.revoked_at is not None and datetime.fromisoformat(key.revoked_at) <= now:
        raise DeniedError(f"the key {named} was revoked {key.revoked_at}", code="approver_key_revoked")
    early = key.valid_from is not None and now < datetime.fromisoformat(key.valid_from)
    if early or (key.valid_until is not None and datetime.fromisoformat(key.valid_until) <= now):
        raise DeniedError(f"the key {named} is not valid now", code="approver_key_not_valid")
