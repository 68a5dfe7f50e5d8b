"""Who speaks on the bus: one NATS identity (nkey) per role, per publisher, for watchers and for operators.

An identity is a file ``<name>.nk`` with the seed, readable by its owner alone, and ``<name>.pub`` with the public key, which
the server's configuration holds. The file's name says which identity it is. The seed never leaves the file and the memory of
the process that connects with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gatewright.bus.topology import ROLES, TASK_ROLES, Role
from gatewright.errors import ConfigurationError, MalformedError

PUBLISHER = "publisher"
WATCHER = "watcher"
OPERATOR = "operator"
#: Sets up the streams and changes them; it writes and reads no message.
PROVISIONER = "provisioner"
#: Those that every system has; others are called ``publisher-<name>`` and, as processes of a role, ``worker-<name>``.
STANDING: tuple[str, ...] = (*ROLES, PUBLISHER, WATCHER, OPERATOR, PROVISIONER)
#: Those that live in the account that holds the streams; every other identity has an account of its own.
RESIDENTS: frozenset[str] = frozenset({"gatekeeper", OPERATOR, PROVISIONER})
#: The publisher whose identity has no name of its own.
DEFAULT_PUBLISHER = "default"
#: The publisher that operators are, such as the command line beside a stack of its own. No other identity may be it.
OPERATOR_PUBLISHER = "operator"

SEED_SUFFIX = ".nk"
PUBLIC_SUFFIX = ".pub"

_PUBLISHER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_MAX_SEED_BYTES = 256
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass(frozen=True, slots=True)
class Credential:
    """An identity that can sign. ``repr`` shows no seed."""

    identity: str
    seed: str

    def __repr__(self) -> str:
        return f"Credential({self.identity})"

    def private_id(self, public_id: str) -> str:
        """``public_id`` as only holders of this credential can make it, 64 hexadecimal digits.

        Roles share a stream's window of message ids: one that could guess an id of another's could have that message taken
        for a repetition.
        """
        return hashlib.blake2b(public_id.encode(), key=hashlib.sha256(self.seed.encode()).digest(), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class BusAddress:
    """Where a bus is and as whom to connect.

    ``seed`` is a ``.nk`` file, ``ca`` the PEM file of the authority behind the server's certificate (for ``tls://`` addresses).
    """

    url: str
    seed: Path | None = None
    ca: Path | None = None


def publisher_identity(publisher: str) -> str:
    """The identity of a publisher: ``publisher`` for ``default``. Raises MalformedError for a name that cannot be one."""
    if not _PUBLISHER_NAME.match(publisher):
        raise MalformedError(
            f"{publisher!r} cannot name a publisher: small letters, digits and dashes, at most 32", code="identity_invalid"
        )
    if publisher == OPERATOR_PUBLISHER:
        raise MalformedError(f"{publisher} is the publisher that operators are: take another name", code="identity_invalid")
    return PUBLISHER if publisher == DEFAULT_PUBLISHER else f"{PUBLISHER}-{publisher}"


def publisher_of(identity: str) -> str | None:
    """The publisher that an identity is; None for one that publishes nothing from outside."""
    if identity == PUBLISHER:
        return DEFAULT_PUBLISHER
    if identity == OPERATOR:
        return OPERATOR_PUBLISHER
    prefix, _, name = identity.partition("-")
    return name if prefix == PUBLISHER and name != OPERATOR_PUBLISHER and _PUBLISHER_NAME.match(name) else None


def role_of(identity: str) -> Role | None:
    """The role that an identity is, or is a process of: ``worker`` of ``worker-2``; None for others."""
    role, dash, name = identity.partition("-")
    known = next((each for each in ROLES if each == role), None)
    return known if not dash or (known in TASK_ROLES and _PUBLISHER_NAME.match(name)) else None


def process_identity(role: Role, number: int) -> str:
    """The identity of the process of a role with this number: that of the role for the first one."""
    return role if number == 1 else f"{role}-{number}"


def checked_process(identity: str) -> str:
    """``identity`` itself when it names a process of a role, as ``worker-2`` does; raises MalformedError."""
    if role_of(identity) not in TASK_ROLES:
        raise MalformedError(f"{identity!r} names no process of a role, such as worker-2", code="identity_invalid")
    return identity


def is_known(identity: str) -> bool:
    """Whether this names an identity of the bus."""
    return identity in STANDING or publisher_of(identity) is not None or role_of(identity) is not None


def is_publisher(identity: str) -> bool:
    """Whether it is a publisher and nothing more: what it reads of the bus is its own."""
    return identity != OPERATOR and publisher_of(identity) is not None


def bus_keys(home: Path) -> Path:
    """Where the identities of a home folder lie."""
    return home / "bus"


def seed_file(directory: Path, identity: str) -> Path:
    return directory / f"{identity}{SEED_SUFFIX}"


def make(directory: Path, identities: Iterable[str] = STANDING) -> tuple[str, ...]:
    """Make the files of those that are missing; returns their names. What is there stays. Raises ConfigurationError."""
    made = []
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for identity in dict.fromkeys(identities):
            path = seed_file(directory, identity)
            if not path.exists() and _create(path):
                made.append(identity)
            _write_public(path)
    except OSError as error:
        raise ConfigurationError(
            f"{directory}: identities cannot be made there: {error.strerror}", code="key_unwritable"
        ) from error
    return tuple(made)


def load(path: Path) -> Credential:
    """The credential in a ``.nk`` file.

    Raises ConfigurationError: ``key_unreadable``, ``key_permissions`` (others could read it), ``identity_invalid``.
    """
    identity = path.stem
    if path.suffix != SEED_SUFFIX or not is_known(identity):
        raise ConfigurationError(
            f"{path.name} names no identity of the bus, such as worker{SEED_SUFFIX}", code="identity_invalid"
        )
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_SEED_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", code="key_unreadable") from error
    if not stat.S_ISREG(mode) or mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(f"{path} can be read by others, or written by its group: chmod 600", code="key_permissions")
    seed = data.strip().decode("ascii", "replace")
    _public_key(seed, path)
    return Credential(identity, seed)


def public_keys(directory: Path) -> Mapping[str, str]:
    """Every identity of a folder by its public key, from the ``.pub`` files alone. Raises ConfigurationError."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob(f"*{PUBLIC_SUFFIX}")):
        identity = path.stem
        if not is_known(identity):
            raise ConfigurationError(f"{path.name} names no identity of the bus", code="identity_invalid")
        try:
            key = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}", code="key_unreadable") from error
        if not _PUBLIC_KEY.match(key):
            raise ConfigurationError(f"{path} holds no public nkey of a user", code="key_not_nkey")
        found[identity] = key
    missing = [identity for identity in STANDING if identity not in found]
    if missing:
        raise ConfigurationError(
            f"{directory} lacks the identity {missing[0]}: make it with `gatewright keys bus`", code="identity_missing"
        )
    if len(set(found.values())) < len(found):
        raise ConfigurationError(f"two identities in {directory} have the same key", code="identity_invalid")
    return found


def _create(path: Path) -> bool:
    """A new seed in a file of mode 0600; False when another process was quicker."""
    import nkeys

    seed = bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))  # type: ignore[no-untyped-call] # no types there
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(seed + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(part)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def _write_public(path: Path) -> None:
    public = path.with_suffix(PUBLIC_SUFFIX)
    key = _public_key(load(path).seed, path)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if public.read_text("ascii").strip() == key:
            return
    part = public.with_name(f".{public.name}.{os.getpid()}")
    part.write_text(key + "\n", "ascii")
    part.chmod(0o644)
    part.replace(public)


def _public_key(seed: str, path: Path) -> str:
    import nkeys

    try:
        key = nkeys.from_seed(bytearray(seed.encode()))  # type: ignore[no-untyped-call] # no types there
        public = bytes(key.public_key).decode("ascii")
    except (nkeys.NkeysError, ValueError, UnicodeError) as error:
        raise ConfigurationError(f"{path} holds no seed of an nkey", code="key_not_nkey") from error
    if not _PUBLIC_KEY.match(public):
        raise ConfigurationError(f"{path} holds the nkey of something else than a user", code="key_not_nkey")
    return public
