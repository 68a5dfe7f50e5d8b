"""Key ring of a home folder: one signing key, and every public key that verification accepts.

``<home>/keys/trusted/*.pub`` are the accepted keys: PEM, with ``Created`` and ``Retired`` above it for people. A file put there
by hand is trusted too; removing a file revokes the trust. A retired key's signature on a run that ended after its retirement is
rejected, but the holder of an old key can still write an old date.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from gatewright.clock import timestamp
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.durable_files import put_file
from gatewright.evidence.signing.envelopes import Signer
from gatewright.file_locks import lock_folder

_NOTE = re.compile(rb"^(Created|Retired): ([0-9TZ:.+-]{1,40})$", re.MULTILINE)  # noqa: TID251 - linear: each try ends where the next one begins
#: ``signing``: this host's own; ``retired``: formerly its own; ``trusted``: added to the ring; ``given``: named for one
#: command.
State = Literal["signing", "trusted", "retired", "given"]
#: Retired private keys: only they can rebuild a lost bundle of their time.
RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A trusted key and the reason for the trust. Times are RFC 3339, empty when unknown; ``file`` is the public half."""

    key_id: str
    state: State
    created: str
    retired: str
    file: Path

    @property
    def whose(self) -> str:
        """The reason as text."""
        return {
            "signing": "this host's own",
            "trusted": "pinned in this home",
            "retired": f"retired {self.retired}",
            "given": "given with --key",
        }[self.state]


def trusted_folder(home: Path) -> Path:
    """Return the folder of the public keys that verification accepts."""
    return home / "keys" / "trusted"


def make(home: Path, private: Path) -> keys.PrivateKey:
    """Return the signing key in ``private``; create it and add it to the ring when missing.

    Raises:
        ConfigurationError: the key cannot be read or written.
    """
    key = keys.load_or_create(private)
    with _ours(home):
        _note(home, key.public, created=_made_at(private))
    return key


def rotate(home: Path, private: Path, now: datetime, *, discard: bool = False) -> tuple[keys.PublicKey, keys.PublicKey]:
    """Replace the signing key in ``private``.

    1. The old public key stays trusted, with its retirement time.
    2. The old private key is kept beside it (not with ``discard``).
    3. The new public key is trusted.
    4. The new private key replaces the old one atomically.
    5. So does its public file.

    An interruption leaves a consistent state; a repetition creates a further key.

    Returns:
        The old public key and the new one.

    Raises:
        ConfigurationError: the key cannot be read or written.
    """
    old = keys.load(private)
    new = keys.generate()
    try:
        with _ours(home):
            _note(home, old.public, created=_made_at(private), retired=timestamp(now))  # 1
            if not discard:
                put_file(home / "keys" / RETIRED / f"{old.public.key_id}.pem", keys.private_pem(old), mode=0o600)  # 2
            _note(home, new.public, created=timestamp(now))  # 3
            # A private key with the public file of another key is refused; a missing public file is written again.
            keys.public_path(private).unlink(missing_ok=True)
            put_file(private, keys.private_pem(new), mode=0o600)  # 4
            put_file(keys.public_path(private), new.public.pem(), mode=0o644)  # 5
    except OSError as error:
        raise ConfigurationError(f"{error.filename or home}: {error.strerror}", code="key_unwritable") from error
    return old.public, new.public


def signing_file(home: Path, private: Path, key_id: str) -> Path:
    """Return the file of the private key with this id, retired keys included; ``private`` when there is none."""
    retired = home / "keys" / RETIRED / f"{key_id}.pem"
    return retired if key_id and retired.is_file() else private


def trusted_keys(home: Path, private: Path) -> list[keys.PublicKey]:
    """Return every key that verification accepts in this home, the key of ``private`` first; empty when there is none.

    Raises:
        ConfigurationError: a file among them is no key.
    """
    public = keys.public_path(private)
    own = [keys.load_public(public)] if public.exists() else []
    others = [replace(keys.load_public(file), retired=_retirement_of(file)) for file in _key_files(home)]
    return list(dict.fromkeys([*own, *others]))


def retired_at(home: Path, key_id: str) -> datetime | None:
    """Return when this key was retired according to the ring; None for a key that was not.

    Raises:
        ConfigurationError: the recorded time is invalid.
    """
    noted = next((_retirement_of(file) for file in _key_files(home) if keys.load_public(file).key_id == key_id), "")
    return datetime.fromisoformat(noted) if noted else None


def known_keys(home: Path, private: Path) -> list[KnownKey]:
    """Return the whole ring: the signing key first, then by creation time.

    Raises:
        ConfigurationError: a file in the ring is no key.
    """
    public = keys.public_path(private)
    beside = keys.load_public(public).key_id if public.exists() else ""
    # A public key without its private key here is trusted but cannot sign.
    own = beside if private.exists() else ""
    found: dict[str, KnownKey] = {}
    for file in _key_files(home):
        key_id, notes = keys.load_public(file).key_id, _notes(file)
        retired = "" if key_id == own else notes.get("Retired", "")
        found.setdefault(key_id, KnownKey(key_id, _state(key_id, own, retired), notes.get("Created", ""), retired, file))
    if beside:
        found.setdefault(beside, KnownKey(beside, _state(beside, own, ""), _made_at(private), "", public))
    return sorted(found.values(), key=lambda key: (key.state != "signing", key.created, key.key_id))


def _state(key_id: str, own: str, retired: str) -> State:
    if key_id == own:
        return "signing"
    return "retired" if retired else "trusted"


def _key_files(home: Path) -> list[Path]:
    return sorted(trusted_folder(home).glob("*.pub"))


def _retirement_of(file: Path) -> str:
    """Return when the key in ``file`` was retired. An invalid time raises ConfigurationError instead of being ignored."""
    noted = _notes(file).get("Retired", "")
    try:
        moment = datetime.fromisoformat(noted) if noted else None
    except ValueError as error:
        raise ConfigurationError(f"{file}: {noted!r} is no time of retirement", code="key_unreadable") from error
    if moment is not None and moment.tzinfo is None:
        raise ConfigurationError(f"{file}: {noted!r} is a time of retirement without its zone", code="key_unreadable")
    return noted


def _notes(file: Path) -> dict[str, str]:
    try:
        head = file.read_bytes()[: keys.MAX_KEY_BYTES].partition(b"-----BEGIN")[0]
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}", code="key_unreadable") from error
    return {name.decode(): value.decode() for name, value in _NOTE.findall(head)}


def _note(home: Path, key: keys.PublicKey, *, created: str, retired: str = "") -> None:
    """Add ``key`` to the ring; existing notes stay. Raises OSError."""
    file = trusted_folder(home) / f"{key.key_id}.pub"
    notes = {"Created": created, "Retired": retired} | (_notes(file) if file.exists() else {})
    words = "".join(f"{name}: {value}\n" for name, value in notes.items() if value)
    data = f"{words}\n".encode() + key.pem()
    if not file.exists() or file.read_bytes() != data:
        put_file(file, data, mode=0o644)


def _made_at(private: Path) -> str:
    """Return when a key file was created, by the file system."""
    return timestamp(datetime.fromtimestamp(private.stat().st_mtime, UTC)) if private.exists() else ""


@contextmanager
def _ours(home: Path) -> Iterator[None]:
    """Lock the ring for this process. Raises ConfigurationError when it cannot be written."""
    folder = trusted_folder(home)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = lock_folder(folder.resolve(), seconds=None)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made: {error.strerror}", code="key_unwritable") from error
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: {error.strerror}", code="key_unwritable") from error
    finally:
        os.close(fd)


# Signer of a gatekeeper whose key may be replaced while it runs: each bundle is signed with the current key.
class HomeSigner(Signer):
    """Signs with the key in ``private`` of the key ring in ``home``. Raises ConfigurationError when it cannot be used."""

    def __init__(self, home: Path, private: Path) -> None:
        super().__init__(keys.load_or_create(private))
        self._home = home
        self._private = private
        self._now: tuple[object, Signer] = (self._mark(), self)

    def current(self, finished_at: str = "") -> Signer:
        """Return the signer for a run that ended then (RFC 3339).

        Raises:
            UnavailableError: the key is being replaced (``bundle_unwritable``). A retired key's signature on a run that ended
                after its retirement would be rejected.
        """
        try:
            mark = self._mark()
            if mark != self._now[0]:
                self._now = (mark, Signer(keys.load(self._private)))
            signer = self._now[1]
            retired = retired_at(self._home, signer.key_id)
        except (ConfigurationError, OSError) as error:
            raise UnavailableError(f"the signing key cannot be read now: {error}", code="bundle_unwritable") from error
        if retired is not None and finished_at and datetime.fromisoformat(finished_at) > retired:
            raise UnavailableError("the signing key is being replaced", code="bundle_unwritable")
        return signer

    def _mark(self) -> object:
        found = self._private.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size
