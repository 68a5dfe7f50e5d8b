"""A passkey in software: a key on P-256 that signs challenges as browsers have authenticators do, honestly or not."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatewright.contracts import codec
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.vocabulary import Document
from gatewright.rules.approvals import NAMESPACE
from gatewright.ssh_signatures.passkeys import PasskeyAssertion, armoured_assertion, challenge_of, passkey_line

PARTY, ORIGIN = "console.example.org", "https://console.example.org"
#: The person was there, and was recognised.
RECOGNISED = 0x05


@dataclass
class SoftwarePasskey:
    """``party`` is what the key is for, ``origin`` the page that asks."""

    party: str = PARTY
    origin: str = ORIGIN
    secret: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def line(self) -> str:
        public = self.secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return passkey_line(public, self.party)

    @property
    def entry(self) -> dict[str, object]:
        """As a roster has it."""
        return {"key": self.line, "origins": [self.origin]}

    def asserted(
        self, challenge: bytes, /, *, flags: int = RECOGNISED, counter: int = 0, extensions: bytes = b"", **client: object
    ) -> PasskeyAssertion:
        """What a browser gives for a challenge; ``client`` are members of what it writes."""
        written = {
            "type": "webauthn.get",
            "challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "origin": self.origin,
            "crossOrigin": False,
            **client,
        }
        client_data = json.dumps(written, separators=(",", ":")).encode()
        head = hashlib.sha256(self.party.encode()).digest() + bytes([flags]) + struct.pack(">I", counter) + extensions
        signature = self.secret.sign(head + hashlib.sha256(client_data).digest(), ec.ECDSA(SHA256()))
        return PasskeyAssertion(client_data, head, signature)

    def sign(self, namespace: str, message: bytes, **fields: object) -> str:
        """The signature of ``message`` in its armour."""
        assertion = self.asserted(challenge_of(namespace, message), **fields)  # type: ignore[arg-type] # flags, or members
        return armoured_assertion(self.line, namespace, assertion)

    def signed(self, document: Document, namespace: str = NAMESPACE, **fields: object) -> SignedDecision:
        """A decision as a page sends it."""
        data = codec.encode(document)
        return SignedDecision(document=data.decode(), signature=self.sign(namespace, data, **fields))
