"""Tombstone of a bundle that was removed on purpose: who, when, why, and the digest of its manifest.

An in-toto Statement whose subject is the bundle's manifest and whose predicate is the ``tombstone.v1`` document, in a DSSE
envelope of the gatekeeper's key: a lost bundle cannot be passed off as a pruned one. ``gatewright.app.retention`` removes
bundles.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from gatewright.contracts import Tombstone
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.signed_documents import SignedKind
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PublicKey

#: The only remaining file of a pruned bundle.
FILE = "tombstone.dsse.json"
PREDICATE_TYPE = "urn:gatewright:tombstone:v1"
#: A larger file is invalid.
MAX_BYTES = 256 * 1024
_SIGNED = SignedKind(Tombstone, PREDICATE_TYPE, "bad_tombstone", lambda stone: {layout.MANIFEST: stone.manifest_sha256})


def sign_tombstone(tombstone: Tombstone, signer: Signer) -> bytes:
    """Return the bytes of the signed tombstone file."""
    return _SIGNED.sign(tombstone, signer)


def open_tombstone(data: bytes, trusted: Sequence[PublicKey]) -> tuple[Tombstone, PublicKey]:
    """Return the tombstone in ``data``, and the trusted key that signed it.

    Raises:
        MalformedError: ``bad_tombstone``, ``bad_envelope``.
        VerificationError: as ``open_envelope``.
    """
    return _SIGNED.open(data, trusted)


def read_tombstone(folder: Path, trusted: Sequence[PublicKey]) -> tuple[Tombstone, PublicKey] | None:
    """Return the tombstone in ``folder`` and the key that signed it; None when there is none.

    Raises:
        MalformedError: it is invalid, or another run's (``other_run``).
        VerificationError: its signature does not verify.
    """
    if not stands(folder):
        return None
    tombstone, key = open_tombstone(_read_tombstone(folder), trusted)
    # The remaining manifest must match the tombstone, so that a tombstone cannot be moved to another bundle.
    if _digest_plain_file(folder / layout.MANIFEST) not in {"", tombstone.manifest_sha256}:
        raise VerificationError("the tombstone is that of another bundle", code="other_run")
    return tombstone, key


def _read_tombstone(folder: Path) -> bytes:
    try:
        fd = os.open(folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise MalformedError("the tombstone is no plain file", code="bad_tombstone")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise MalformedError(f"the tombstone cannot be read: {error.strerror or error}", code="bad_tombstone") from error
    if len(data) > MAX_BYTES:
        raise MalformedError(f"more than {MAX_BYTES} bytes are no tombstone", code="bad_tombstone")
    return data


def _digest_plain_file(path: Path) -> str:
    """Return the sha256 of a plain file; empty when there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""


def stands(folder: Path) -> bool:
    """Return whether a file exists at the tombstone's path: then no bundle may be written there."""
    return os.path.lexists(folder / FILE)
