"""Identities on the bus: one NATS identity (nkey) for each role, each publisher, watchers and operators.

An identity is a file ``<name>.nk`` with the seed, readable only by its owner, and ``<name>.pub`` with the public key, which
the server's configuration lists. The file name names the identity. The seed never leaves the file and the memory of the
process that connects with it. The lines below the seed hold earlier seeds, newest first (``identity_changes``).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gatewright.bus import topology
from gatewright.bus.topology import ROLES, TASK_ROLES, Role
from gatewright.errors import ConfigurationError, MalformedError

PUBLISHER = "publisher"
WATCHER = "watcher"
OPERATOR = "operator"
#: Brings people's signed decisions. The signature shows who decided, not the identity.
APPROVER = "approver"
#: Looks at how queues, streams and processes are, and reads no message.
OBSERVER = "observer"
#: Sets up the streams and changes them; it writes and reads no message.
PROVISIONER = "provisioner"
#: Prepares environments for publishers; it reads no message of a run.
PULLER = "puller"
#: Has a server of another region copy the ledger; made where an operator adds it.
MIRROR = "mirror"
#: Those that every system has; others are called ``publisher-<name>`` and, as processes of a role, ``worker-<name>``.
STANDING: tuple[str, ...] = (*ROLES, PUBLISHER, WATCHER, OBSERVER, APPROVER, OPERATOR, PROVISIONER, PULLER)
#: Identities in the account that holds the streams; every other identity has its own account.
RESIDENTS: frozenset[str] = frozenset({"gatekeeper", OPERATOR, PROVISIONER, MIRROR})
DEFAULT_PUBLISHER = topology.DEFAULT_PUBLISHER
OPERATOR_PUBLISHER = topology.OPERATOR_PUBLISHER

SEED_SUFFIX = ".nk"
PUBLIC_SUFFIX = ".pub"
#: The file of a user of a server in operator mode: what its account has signed, and the seed.
CREDENTIALS_SUFFIX = ".creds"

_PUBLISHER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: The labels of earlier seeds in a seed file: still accepted by the server, or no longer accepted.
PREVIOUS = "previous"
RETIRED = "retired"
#: Seeds before the present one that a file keeps. Tasks that are given out under an older one can no longer be answered.
MOST_EARLIER = 64
_MAX_SEED_BYTES = 8192
_MAX_CREDENTIALS_BYTES = 1 << 18
_TOKEN_BEGINS = "-----BEGIN NATS USER JWT-----"  # noqa: S105 - a line of the format
_SEED_BEGINS = "-----BEGIN USER NKEY SEED-----"
_SEED_ENDS = "------END USER NKEY SEED------"
#: The public keys that were revoked, one a line, in the folder of the identities.
_REVOKED_KEYS = "revoked.keys"
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass(frozen=True, slots=True)
class Credential:
    """An identity that can sign. ``repr`` shows no seed.

    ``earlier``: the seeds before this one, the newest first; ``replacing``: the server still accepts the newest of them, and
    other processes have it. ``token``: what its account has signed for it, for a server in operator mode.
    """

    identity: str
    seed: str
    earlier: tuple[str, ...] = ()
    replacing: bool = False
    token: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.identity})"

    def private_id(self, public_id: str) -> str:
        """``public_id`` as only holders of this credential can make it, 64 hexadecimal digits.

        Roles share a stream's window of message ids: one that could guess an id of another's could have that message taken
        for a repetition.
        """
        return _keyed_digest(self.seed, public_id)

    @property
    def public_key(self) -> str:
        """Return the public key by which the server knows the identity."""
        return _public_key(self.seed, Path(self.identity))

    def signature(self, nonce: str) -> bytes:
        """Return the signature of a server's nonce, in base64."""
        import nkeys

        pair = nkeys.from_seed(bytearray(self.seed.encode()))  # type: ignore[no-untyped-call] # no types there
        return base64.b64encode(pair.sign(nonce.encode()))

    def keyed_hashes(self, text: str) -> tuple[str, ...]:
        """Return digests of ``text`` keyed with this credential: give out the first, accept any of them.

        While a key is being replaced, the earlier key comes first, because a process that has not restarted knows only that
        one. Digests made with an earlier key stay valid however often the key has been replaced since.
        """
        first = (self.earlier[0], self.seed, *self.earlier[1:]) if self.replacing else (self.seed, *self.earlier)
        return tuple(_keyed_digest(seed, text) for seed in first)


@dataclass(frozen=True, slots=True)
class BusAddress:
    """The address of a bus, and the identity to connect with.

    ``seed`` is a ``.nk`` file, ``ca`` the PEM file of the authority behind the server's certificate (for ``tls://``
    addresses). ``partitions`` is the number of streams that hold the ledger.
    """

    url: str
    seed: Path | None = None
    ca: Path | None = None
    partitions: int = 1


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
    """Return the publisher that an identity stands for; None if the identity publishes nothing from outside."""
    if identity == PUBLISHER:
        return DEFAULT_PUBLISHER
    if identity == OPERATOR:
        return OPERATOR_PUBLISHER
    prefix, _, name = identity.partition("-")
    # Two identities that were one publisher would share what that publisher has for itself.
    taken = name in (DEFAULT_PUBLISHER, OPERATOR_PUBLISHER)
    return name if prefix == PUBLISHER and not taken and _PUBLISHER_NAME.match(name) else None


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
    """Return whether this names an identity of the bus."""
    return identity in (*STANDING, MIRROR) or publisher_of(identity) is not None or role_of(identity) is not None


def is_publisher(identity: str) -> bool:
    """Return whether the identity is only a publisher, which can read nothing but its own data."""
    return identity != OPERATOR and publisher_of(identity) is not None


def bus_keys(home: Path) -> Path:
    """Return the folder of a home folder's identities."""
    return home / "bus"


def seed_file(directory: Path, identity: str) -> Path:
    return directory / f"{identity}{SEED_SUFFIX}"


def make(directory: Path, identities: Iterable[str] = STANDING) -> tuple[str, ...]:
    """Create the files of the identities that are missing and leave existing ones unchanged.

    Returns:
        The names of the identities that were created.

    Raises:
        ConfigurationError: the folder or a file cannot be written.
    """
    made = []
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for identity in dict.fromkeys(identities):
            path = seed_file(directory, identity)
            if not path.exists() and _create(path):
                made.append(identity)
            write_public(path)
    except OSError as error:
        raise ConfigurationError(
            f"{directory}: identities cannot be made there: {error.strerror}", code="key_unwritable"
        ) from error
    return tuple(made)


def credential_file(directory: Path, identity: str) -> Path:
    """Return the file that an identity connects with: its operator-mode credentials if they exist, else its seed."""
    credentials = directory / f"{identity}{CREDENTIALS_SUFFIX}"
    return credentials if credentials.exists() else seed_file(directory, identity)


def load(path: Path) -> Credential:
    """The credential in a ``.nk`` or ``.creds`` file.

    Raises ConfigurationError: ``key_unreadable``, ``key_permissions`` (others could read it), ``identity_invalid``.
    """
    identity = path.stem
    if path.suffix not in (SEED_SUFFIX, CREDENTIALS_SUFFIX) or not is_known(identity):
        raise ConfigurationError(
            f"{path.name} names no identity of the bus, such as worker{SEED_SUFFIX}", code="identity_invalid"
        )
    try:
        text = read_private(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", code="key_unreadable") from error
    return _parse_credential(identity, text, path) if path.suffix == SEED_SUFFIX else _parsed_credentials(identity, text, path)


def read_private(path: Path) -> str:
    """A file with a secret. Raises OSError, ConfigurationError (``key_permissions``: others could read it)."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(_MAX_CREDENTIALS_BYTES if path.suffix == CREDENTIALS_SUFFIX else _MAX_SEED_BYTES)
    if not stat.S_ISREG(mode) or mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(f"{path} can be read by others, or written by its group: chmod 600", code="key_permissions")
    return data.decode("ascii", "replace")


def _parse_credential(identity: str, text: str, path: Path) -> Credential:
    seed, *lines = text.strip().split("\n")
    _public_key(seed, path)
    earlier = []
    for number, line in enumerate(lines):
        state, _, before = line.partition(" ")
        _public_key(before, path)
        if state != RETIRED and (state != PREVIOUS or number > 0):
            raise ConfigurationError(f"{path} holds no seed of an nkey", code="key_not_nkey")
        earlier.append(before)
    return Credential(identity, seed, tuple(earlier), replacing=bool(lines) and lines[0].startswith(PREVIOUS))


def _parsed_credentials(identity: str, text: str, path: Path) -> Credential:
    """Gatewright adds earlier seeds after the seed, as in a seed file. Other clients do not read them."""
    _, _, rest = text.partition(_TOKEN_BEGINS)
    token, _, rest = rest.partition("\n-")
    _, _, rest = rest.partition(_SEED_BEGINS)
    seed, _, earlier = rest.partition(_SEED_ENDS)
    held = _parse_credential(identity, f"{seed.strip()}\n{earlier.strip()}", path)
    if not token.strip():
        raise ConfigurationError(f"{path} holds no token of a user", code="key_not_nkey")
    return replace(held, token=token.strip())


def credentials_text(credential: Credential) -> str:
    """A ``.creds`` file, as clients of NATS read it."""
    return (
        f"{_TOKEN_BEGINS}\n{credential.token}\n------END NATS USER JWT------\n\n"
        "This file holds a secret: it is the identity of its user.\n\n"
        f"{_SEED_BEGINS}\n{credential.seed}\n{_SEED_ENDS}\n{_earlier_lines(credential)}"
    )


def revoked_keys(directory: Path) -> tuple[str, ...]:
    """Return all revoked public keys. Raises ConfigurationError."""
    path = directory / _REVOKED_KEYS
    try:
        return tuple(path.read_text("ascii").split()) if path.exists() else ()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", code="key_unreadable") from error


def remember_revoked(directory: Path, seed: str) -> None:
    """Record the public key of a revoked seed for good: in operator mode a signed user stays valid until the server refuses
    it.

    Raises OSError.
    """
    path = directory / _REVOKED_KEYS
    with path.open("a", encoding="ascii") as file:
        file.write(f"{_public_key(seed, path)}\n")
        file.flush()
        os.fsync(file.fileno())


def public_keys(directory: Path) -> Mapping[str, str]:
    """Return every identity of a folder by its public key, read from the ``.pub`` files only. Raises ConfigurationError."""
    return {identity: keys[0] for identity, keys in _all_public(directory).items()}


def earlier_keys(directory: Path) -> Mapping[str, str]:
    """The keys that are being replaced, which a server still accepts. Raises ConfigurationError."""
    return {identity: keys[1] for identity, keys in _all_public(directory).items() if len(keys) > 1}


def _all_public(directory: Path) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(directory.glob(f"*{PUBLIC_SUFFIX}")):
        identity = path.stem
        if not is_known(identity):
            raise ConfigurationError(f"{path.name} names no identity of the bus", code="identity_invalid")
        try:
            keys = tuple(path.read_text("ascii").split())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}", code="key_unreadable") from error
        if not 1 <= len(keys) <= 2 or not all(map(_PUBLIC_KEY.match, keys)):
            raise ConfigurationError(f"{path} holds no public nkey of a user", code="key_not_nkey")
        found[identity] = keys
    missing = [identity for identity in STANDING if identity not in found]
    if missing:
        raise ConfigurationError(
            f"{directory} lacks the identity {missing[0]}: make it with `gatewright keys bus`", code="identity_missing"
        )
    every = [key for keys in found.values() for key in keys]
    if len(set(every)) < len(every):
        raise ConfigurationError(f"two identities in {directory} have the same key", code="identity_invalid")
    return found


def new_seed() -> str:
    """A seed that no identity has yet."""
    import nkeys

    return bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)).decode("ascii")  # type: ignore[no-untyped-call] # no types there


def write_seed(path: Path, credential: Credential) -> None:
    """Replace a seed file and then its public file, each atomically, with modes 0600 and 0644. Raises OSError."""
    part = _write_credential(path, credential)
    part.replace(path)
    write_public(path)


def _write_credential(path: Path, credential: Credential) -> Path:
    return _private_part(path, f"{credential.seed}\n{_earlier_lines(credential)}")


def _earlier_lines(credential: Credential) -> str:
    kept = enumerate(credential.earlier[:MOST_EARLIER])
    return "".join(f"{PREVIOUS if credential.replacing and number == 0 else RETIRED} {seed}\n" for number, seed in kept)


def write_private(path: Path, text: str) -> None:
    """Write a secret to a file of mode 0600, replacing any existing content. Raises OSError."""
    _private_part(path, text).replace(path)


def _private_part(path: Path, text: str) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return part


def _create(path: Path) -> bool:
    """A new seed in a file of mode 0600; False when another process was quicker."""
    return create_private(path, f"{new_seed()}\n")


def create_private(path: Path, text: str) -> bool:
    """A file of mode 0600 with a secret; False when it was there already. Raises OSError."""
    part = _private_part(path, text)
    try:
        path.hardlink_to(part)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def write_public(path: Path) -> bool:
    """Write the public half of a seed file; False when it was right already. Raises OSError, ConfigurationError."""
    public = path.with_suffix(PUBLIC_SUFFIX)
    held = load(path)
    seeds = (held.seed, *(held.earlier[:1] if held.replacing else ()))
    text = "".join(f"{_public_key(seed, path)}\n" for seed in seeds)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if public.read_text("ascii") == text:
            return False
    part = public.with_name(f".{public.name}.{os.getpid()}")
    part.write_text(text, "ascii")
    part.chmod(0o644)
    part.replace(public)
    return True


def _keyed_digest(seed: str, text: str) -> str:
    return hashlib.blake2b(text.encode(), key=hashlib.sha256(seed.encode()).digest(), digest_size=32).hexdigest()


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
