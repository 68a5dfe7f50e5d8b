"""The files of an installed tree, read as foreign content: no link is followed, and sizes, numbers and names are bounded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from packageurl import PackageURL

from gatewright.contracts.inventory import MOST_NAMED, MOST_PACKAGES, InventoryPackage
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: Entries of one tree, bytes of contents that are compared, and bytes of one file of metadata.
MOST_ENTRIES: Final = 1_000_000
MOST_HASHED: Final = 16 << 30
MOST_METADATA: Final = 16 << 20
_LONGEST: Final = 400
_BLOCK: Final = 1 << 20


def one_line(text: str) -> str:
    """Return foreign text as one printable line of at most 400 characters; other characters are escaped."""
    words = " ".join(text[: 2 * _LONGEST].split())
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def host_of(url: object) -> str | None:
    """Return the host of an address; None for no address. User, password and path are never part of it."""
    try:
        return one_line(urlsplit(url).hostname or "") or None if isinstance(url, str) else None
    except ValueError:
        return None


@dataclass
class InstalledTree:
    """The regular ``files`` below ``root`` by path, with their sizes, and all ``others`` but folders; not __pycache__.

    ``start`` is the folder to read, empty for all. Readers fill in the other fields.
    """

    root: Path
    start: str = ""
    version: str = ""
    files: dict[str, int] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    packages: list[InventoryPackage] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    altered: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    hashed: int = 0

    def __post_init__(self) -> None:
        waiting = [self.start]
        while waiting and len(self.files) + len(self.others) < MOST_ENTRIES:
            folder = waiting.pop()
            try:
                with os.scandir(self.root / folder) as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}".lstrip("/")
                        if entry.is_dir(follow_symlinks=False):
                            waiting += [path] if entry.name != "__pycache__" else []
                        elif entry.is_file(follow_symlinks=False):
                            self.files[path] = entry.stat(follow_symlinks=False).st_size
                        else:
                            self.others.add(path)
            except OSError as error:
                self.fault(f"{folder or '.'} cannot be read: {error.strerror}")
        if waiting:
            self.fault(f"more than {MOST_ENTRIES} files: the others were not read")

    def fault(self, words: str) -> None:
        """Record why something was not measured; the last place states that there are more."""
        if len(self.faults) < MOST_NAMED:
            self.faults.append(one_line(words) if len(self.faults) < MOST_NAMED - 1 else "and more")

    def add(self, kind: str, name: object, version: object, **facts: object) -> bool:
        """Record a package with further fields; return whether its name and version are usable. Others are a fault."""
        purl = _package_url(kind, name, version)
        if not purl or len(self.packages) >= MOST_PACKAGES:
            self.fault(f"a package has no usable name, or is one too many: {name!r:.200} {version!r:.100}")
            return False
        kept = {key: value for key, value in facts.items() if value not in {None, ""}}
        self.packages.append(InventoryPackage(name=str(name), version=str(version), purl=purl, **kept))  # type: ignore[arg-type]
        return True

    def read(self, path: str) -> bytes:
        """Return the content of a file of metadata; nothing, with a fault, if it is missing, too large or unreadable."""
        if self.files.get(path, MOST_METADATA + 1) > MOST_METADATA:
            self.fault(f"{path} is missing, no plain file, or has more than {MOST_METADATA} bytes")
            return b""
        return b"".join(self._content_blocks(path))

    def read_object(self, path: str) -> dict[str, Any]:
        """Return a JSON object; an empty one, with a fault, for anything else."""
        try:
            return dict(read_json(self.read(path), dict[str, Any]))
        except UnreadableDocumentError as error:
            self.fault(f"{path}: {error}")
            return {}

    def digest(self, path: str, algorithm: str = "sha256") -> bytes:
        """Return the digest of a file; nothing if it is missing, or beyond the bytes that are compared."""
        self.hashed += self.files.get(path, 0)
        if path not in self.files or self.hashed > MOST_HASHED:
            self.fault(f"{path} was not compared: it is missing, or beyond {MOST_HASHED} bytes")
            return b""
        digest = hashlib.new(algorithm)
        for block in self._content_blocks(path):
            digest.update(block)
        return digest.digest()

    def _content_blocks(self, path: str) -> Iterator[bytes]:
        try:
            # The walk met no link on the way; what replaced the file since is no link, and no pipe to wait for.
            with os.fdopen(os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    yield block
        except OSError as error:
            self.fault(f"{path} cannot be read: {error.strerror}")


def _package_url(kind: str, name: object, version: object) -> str:
    """Return the package URL; empty for anything that is no plain name and version on one line."""
    if not (isinstance(name, str) and isinstance(version, str) and (name, version) == (one_line(name), one_line(version))):
        return ""
    namespace, _, own = name.rpartition(":" if kind == "maven" else "/")
    try:
        purl = str(PackageURL(kind, namespace or None, own, version or None))
    except ValueError:
        return ""
    return purl if len(purl) <= _LONGEST else ""
