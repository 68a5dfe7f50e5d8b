"""The ed25519 keys of a gatekeeper: created once, stored as PEM, identified by a key id.

The private key is PKCS #8, readable only by its owner; the public key is beside it with the suffix ``.pub``. The key id is that
of securesystemslib (sha256 of the key's canonical JSON), so that its verifier finds the key by itself.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.errors import ConfigurationError
from gatewright.evidence.signing.durable_files import publish_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.signer import SSlibKey

#: Maximum bytes read of a key file.
MAX_KEY_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key to verify with: its id (its fingerprint), and its 32 raw bytes.

    ``retired`` is when its owner stopped signing with it (RFC 3339), empty while unknown; later signatures are rejected.
    """

    key_id: str
    raw: bytes
    retired: str = field(default="", compare=False)

    def was_retired_by(self, moment: str) -> bool:
        """Return whether the key was retired by this time (RFC 3339). An unreadable time is treated as late."""
        if not self.retired:
            return False
        try:
            return datetime.fromisoformat(moment) > datetime.fromisoformat(self.retired)
        except (ValueError, TypeError):
            return True

    def pem(self) -> bytes:
        """Return the key as PEM SubjectPublicKeyInfo."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def library_key(self) -> SSlibKey:
        """Return the key in the form of securesystemslib."""
        from securesystemslib.signer import SSlibKey

        return SSlibKey(self.key_id, "ed25519", "ed25519", {"public": self.raw.hex()})


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key to sign with, and its public half. Its representation never shows the key."""

    secret: Ed25519PrivateKey
    public: PublicKey

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.key_id})"


def home_key(home: Path) -> Path:
    """Return the default path of the gatekeeper's private key below its home."""
    return home / "keys" / "gatekeeper.pem"


def generate() -> PrivateKey:
    """Generate a key pair in memory."""
    # Imported late, as everywhere here: it takes a tenth of a second that only signing and verification need.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _private(Ed25519PrivateKey.generate())


def private_pem(key: PrivateKey) -> bytes:
    """Return the private key as unencrypted PEM, PKCS #8, for a file of mode 0600."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def create(path: Path) -> PrivateKey:
    """Create a key pair: ``path`` (mode 0600) and ``path`` + ``.pub``, both durable.

    Raises:
        ConfigurationError: ``path`` exists (``key_exists``); nothing has changed.
    """
    key = generate()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish_file(path, private_pem(key), mode=0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists already", code="key_exists") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}", code="key_unwritable") from error
    return _with_public_file(key, path)


def load(path: Path) -> PrivateKey:
    """Return the private key in ``path``; write its public file when missing.

    Raises:
        ConfigurationError: as ``load_secret``, and ``key_mismatch`` when the public file has another key.
    """
    return _with_public_file(_private(load_secret(path)), path)


def load_secret(path: Path) -> Ed25519PrivateKey:
    """Return the private key in ``path`` without its id, which is slow to compute.

    Raises:
        ConfigurationError: ``key_unreadable``, ``key_permissions`` (others could read it), ``key_not_ed25519``.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data, status = _read_key(path)
    _check_permissions(path, status)
    try:
        secret = load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} is not an unencrypted PEM private key", code="key_not_ed25519") from error
    if not isinstance(secret, Ed25519PrivateKey):
        raise ConfigurationError(f"{path} is not an ed25519 key", code="key_not_ed25519")
    return secret


def load_or_create(path: Path) -> PrivateKey:
    """Return the key in ``path``; create it when missing. Safe when several processes start at once.

    Raises:
        ConfigurationError: the key cannot be read or written.
    """
    if not path.exists():
        try:
            return create(path)
        except ConfigurationError as error:
            if error.reason != "key_exists":
                raise
    return load(path)


def load_public(path: Path) -> PublicKey:
    """Return the public key in ``path`` (PEM).

    Raises:
        ConfigurationError: ``key_unreadable``, ``key_not_ed25519``.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data, _ = _read_key(path)
    try:
        key = load_pem_public_key(data)
    except ValueError as error:
        raise ConfigurationError(f"{path} is not a PEM public key", code="key_not_ed25519") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{path} is not an ed25519 key", code="key_not_ed25519")
    return _public(key.public_bytes_raw())


def public_path(path: Path) -> Path:
    """Return the path of the public file of the private key in ``path``."""
    return path.with_name(path.name + ".pub")


def _public(raw: bytes) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.signer import SSlibKey

    return PublicKey(SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(raw)).keyid, raw)


def _private(secret: Ed25519PrivateKey) -> PrivateKey:
    return PrivateKey(secret, _public(secret.public_key().public_bytes_raw()))


def _with_public_file(key: PrivateKey, path: Path) -> PrivateKey:
    """Write the public file when missing. A read-only folder (a mounted secret) is accepted.

    Raises ConfigurationError (``key_mismatch``) for another key there: a verifier that uses it would trust the wrong signer.
    """
    public = public_path(path)
    if not public.exists():
        with contextlib.suppress(OSError):
            publish_file(public, key.public.pem(), mode=0o644)
    if public.exists() and load_public(public) != key.public:
        raise ConfigurationError(f"{public} is not the public half of {path}", code="key_mismatch")
    return key


def _check_permissions(path: Path, status: os.stat_result) -> None:
    """Accept a file that only this user can read, or a file of root that a group of this user may only read.

    Orchestrators mount secrets for unprivileged processes in the second way: owner root, mode 0440, group by fsGroup.
    """
    mode, own = stat.S_IMODE(status.st_mode), os.geteuid()
    if status.st_uid not in {own, 0}:
        raise ConfigurationError(f"{path} belongs to another account", code="key_permissions")
    given = status.st_uid == 0 != own and status.st_gid in {os.getegid(), *os.getgroups()}
    if mode & (0o037 if given else 0o077):
        raise ConfigurationError(f"{path} can be read by others; chmod 600 it", code="key_permissions")


def _read_key(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES), os.fstat(file.fileno())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", code="key_unreadable") from error
