"""Documents that are signed on their own: an in-toto Statement with the document as its predicate, in a DSSE envelope.

PUBLICATION = SignedKind(Publication, "urn:gatewright:publication:v1", "bad_publication", subjects)
publication, key = PUBLICATION.open(PUBLICATION.sign(publication, signer), trusted)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.evidence.signing.envelopes import Signer, open_envelope
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.statement import STATEMENT_TYPE
from gatewright.foreign_documents import UnreadableDocumentError, read_json

D = TypeVar("D", bound=Document)


class _Signed(msgspec.Struct, Generic[D], frozen=True, rename="camel", forbid_unknown_fields=True):
    type: str = msgspec.field(name="_type")
    subject: Any
    predicate_type: str
    predicate: D


@dataclass(frozen=True, slots=True)
class SignedKind(Generic[D]):
    """``code`` is that of another document. ``subjects``: sha256 by name, which follow from the document."""

    kind: type[D]
    predicate_type: str
    code: str
    subjects: Callable[[D], Mapping[str, str]]

    def sign(self, document: D, signer: Signer) -> bytes:
        """Return the signed document; the same for document and key."""
        return signer.envelope(self._payload(document))

    def open(self, data: bytes, trusted: Sequence[PublicKey]) -> tuple[D, PublicKey]:
        """Return the document in ``data``, and the trusted key that signed it.

        Raises:
            MalformedError: ``bad_envelope``, or ``code`` for another document, another form or other subjects.
            VerificationError: as ``open_envelope``.
        """
        payload, key = open_envelope(data, trusted)
        try:
            document: D = read_json(payload, _Signed[self.kind]).predicate  # type: ignore[name-defined]  # made when it runs
        except UnreadableDocumentError as error:
            raise MalformedError(f"what was signed is no {self.kind.__name__}: {error}", code=self.code) from error
        if self._payload(document) != payload:
            raise MalformedError(f"what was signed is no {self.kind.__name__} in its one form", code=self.code)
        return document, key

    def _payload(self, document: D) -> bytes:
        named = [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in self.subjects(document).items()]
        return msgspec.json.encode(_Signed(STATEMENT_TYPE, named, self.predicate_type, document), order="sorted")
