"""Adding, revoking and rotating identities of a running system, as changes to the files of a folder.

A server applies a change when it reloads its configuration. A key that servers must refuse from then on stays in the folder
``revoked`` until every server was seen to refuse it, because only the seed can show that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gatewright.bus import identities, identity_limits
from gatewright.bus.identities import PUBLIC_SUFFIX, SEED_SUFFIX, STANDING, Credential, seed_file
from gatewright.bus.identity_limits import IdentityLimits
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.file_locks import lock_folder

_REVOKED = "revoked"
_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KnownIdentity:
    """An identity of a folder. ``earlier``: the public key before, while it is still accepted."""

    name: str
    public_key: str
    earlier: str


def known(directory: Path) -> tuple[KnownIdentity, ...]:
    """Raises ConfigurationError."""
    earlier = identities.earlier_keys(directory)
    return tuple(KnownIdentity(name, key, earlier.get(name, "")) for name, key in identities.public_keys(directory).items())


def add(directory: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Make the files of further identities; returns those that were missing. Raises MalformedError, ConfigurationError."""
    wanted = [_check_name(name) for name in names]
    with _changing(directory):
        return identities.make(directory, wanted)


def revoke(directory: Path, name: str) -> None:
    """Revoke a key and the earlier key of the same identity. An identity that every system needs gets a new key immediately.

    Raises MalformedError (``identity_unknown``), ConfigurationError.
    """
    with _changing(directory):
        path = _existing(directory, name)
        held = identities.load(path)
        _set_aside(directory, name, (held.seed, *(held.earlier[:1] if held.replacing else ())))
        if name in STANDING:
            identities.write_seed(path, Credential(name, identities.new_seed()))
            return
        # The public half goes first: the server's configuration is rendered from it.
        path.with_suffix(PUBLIC_SUFFIX).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        limits = identity_limits.read(directory)
        if limits.pop(name, None) is not None:
            identity_limits.write(directory, limits)


def rotate(directory: Path, name: str) -> None:
    """Give an identity a second key; servers accept both until ``finish``.

    A rotation that was interrupted is completed.

    Raises MalformedError (``identity_unknown``; ``identity_replaced``: it already has two), ConfigurationError.
    """
    with _changing(directory):
        path = _existing(directory, name)
        held = identities.load(path)
        if held.replacing and identities.write_public(path):
            return
        if held.replacing:
            raise MalformedError(
                f"the key of {name} is being replaced: end that first, with `gatewright identities rotate {name} --finish`",
                code="identity_replaced",
            )
        identities.write_seed(path, Credential(name, identities.new_seed(), (held.seed, *held.earlier), replacing=True))


def finish(directory: Path, name: str) -> None:
    """Have the key before accepted no more. A change that was cut short is completed.

    Raises MalformedError (``identity_unknown``, ``identity_replaced``: there is none), ConfigurationError.
    """
    with _changing(directory):
        path = _existing(directory, name)
        held = identities.load(path)
        if not held.replacing and identities.write_public(path):
            return
        if not held.replacing:
            raise MalformedError(f"the key of {name} is not being replaced", code="identity_replaced")
        _set_aside(directory, name, held.earlier[:1])
        identities.write_seed(path, replace(held, replacing=False))


def limit(directory: Path, name: str, bounds: IdentityLimits | None) -> None:
    """Bound what an identity may take of the server; None: as shipped again.

    Raises MalformedError (``identity_unknown``, ``identity_limit_invalid``), ConfigurationError.
    """
    with _changing(directory):
        _existing(directory, name)
        limits = identity_limits.read(directory)
        if bounds is None:
            limits.pop(name, None)
        else:
            before = limits.get(name, IdentityLimits())
            changed = {key: value for key, value in msgspec.structs.asdict(bounds).items() if value is not None}
            limits[name] = msgspec.structs.replace(before, **changed)
            limits[name].check(name)
        identity_limits.write(directory, limits)


def to_be_refused(directory: Path) -> dict[Path, Credential]:
    """Return the credentials that no server may accept, by the files that hold them. Raises ConfigurationError."""
    return {path: identities.load(path) for path in sorted((directory / _REVOKED).glob(f"*/*{SEED_SUFFIX}"))}


def was_refused(files: Iterable[Path]) -> None:
    """Forget what every server was seen to refuse."""
    for path in files:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder still holds another key
            path.parent.rmdir()


def _check_name(name: str) -> str:
    if not identities.is_known(name):
        raise MalformedError(
            f"{name!r} cannot be the name of an identity: use publisher-NAME, or ROLE-NAME for another process of a role",
            code="identity_invalid",
        )
    return name


def _existing(directory: Path, name: str) -> Path:
    path = seed_file(directory, _check_name(name))
    if not path.is_file():
        raise MalformedError(f"{directory} has no identity {name}", code="identity_unknown")
    return path


def _set_aside(directory: Path, name: str, seeds: Iterable[str]) -> None:
    for seed in seeds:
        identities.remember_revoked(directory, seed)
        number = 1
        while (folder := directory / _REVOKED / str(number)).exists():
            number += 1
        folder.mkdir(mode=0o700, parents=True)
        path = seed_file(folder, name)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{seed}\n")


@contextlib.contextmanager
def _changing(directory: Path) -> Iterator[None]:
    """Lock the folder so that one change runs at a time, and raise ConfigurationError if files cannot be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = lock_folder(directory, seconds=_LOCK_SECONDS)
    except BlockingIOError:
        raise ConfigurationError(
            f"another command changes the identities of {directory}: wait for it", code="key_unwritable"
        ) from None
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        yield
        os.fsync(held)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        os.close(held)


def _unwritable(directory: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{directory}: identities cannot be changed there: {error.strerror}", code="key_unwritable")
