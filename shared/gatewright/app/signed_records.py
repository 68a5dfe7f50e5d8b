"""Signed records in the home folder of what was done with results of runs, and the key that signs them.

A record is ``KIND/RUN/NAME.dsse.json``. It verifies with the public keys that this home folder has signed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from gatewright.contracts import Deployment, Publication
from gatewright.errors import ConfigurationError, GatewrightError, MalformedError
from gatewright.evidence.layout import safe
from gatewright.evidence.signed_documents import SignedKind
from gatewright.evidence.signing.durable_files import put_file
from gatewright.evidence.signing.keys import PrivateKey, PublicKey, load, load_or_create, load_public
from gatewright.evidence.signing.minisign import minisign_public_key

R = TypeVar("R", Deployment, Publication)
#: The kinds: folders of the home folder.
PUBLICATIONS: Final = "publications"
DEPLOYMENTS: Final = "deployments"
KINDS: Final = (PUBLICATIONS, DEPLOYMENTS)
#: In the home folder: the public keys that signed, and the key that signs by default.
KEYS: Final = "keys/publication"
_KEY: Final = "keys/publication.pem"
_END: Final = ".dsse.json"


@dataclass(frozen=True, slots=True)
class Record(Generic[R]):
    """A record in the home folder; ``code`` is empty if it verifies."""

    file: str
    record: R | None
    code: str = ""


def result_key(home: Path, own: Path | None, bundle_keys: Sequence[PublicKey]) -> PrivateKey:
    """Return the key in the file ``own``, by default that of the home folder, which is created when missing.

    Raises:
        ConfigurationError: it cannot be used, or it also signs bundles (``publication_key_shared``).
        OSError: the home folder cannot be written.
    """
    key = load(own) if own is not None else load_or_create(home / _KEY)
    if key.public in bundle_keys:
        raise ConfigurationError("the key also signs bundles: name a key of its own", code="publication_key_shared")
    put_file(home / KEYS / f"{key.public.key_id}.pub", key.public.pem(), mode=0o644)
    put_file(home / KEYS / f"{key.public.key_id}.minisign.pub", minisign_public_key(key.public), mode=0o644)
    return key


def record_file(home: Path, kind: str, run_id: str, name: str) -> Path:
    """Return the path of a record of ``kind``, which is a folder of the home folder."""
    return home / kind / safe(run_id) / f"{name}{_END}"


def open_record(kind: SignedKind[R], data: bytes, trusted: Sequence[PublicKey]) -> R:
    """Return the record in ``data``.

    Raises:
        MalformedError: the code of ``kind``, ``bad_envelope``.
        VerificationError: no trusted key signed it.
    """
    record, key = kind.open(data, trusted)
    if record.key_id != key.key_id:
        raise MalformedError("the record names another key than signed it", code=kind.code)
    return record


def home_keys(home: Path) -> list[PublicKey]:
    """Return the public keys that this home folder has signed with. Raises ConfigurationError for a file that is none."""
    return [load_public(file) for file in sorted((home / KEYS).glob("*.pub")) if not file.name.endswith(".minisign.pub")]


def read_records(home: Path, folder: str, kind: SignedKind[R], run_id: str = "*") -> list[Record[R]]:
    """Return the records below ``folder`` of a run, or of all runs, each verified with the keys of the home folder.

    Raises ConfigurationError for a file of a key that is none.
    """
    trusted = home_keys(home)
    return [_read_record(file, kind, trusted) for file in sorted((home / folder).glob(f"{run_id}/*{_END}"))]


def _read_record(file: Path, kind: SignedKind[R], trusted: Sequence[PublicKey]) -> Record[R]:
    try:
        record = open_record(kind, file.read_bytes(), trusted)
    except GatewrightError as error:
        return Record(str(file), None, error.reason)
    return Record(str(file), record, "" if record.run_id == file.parent.name else "other_run")
