"""The files of an installed tree, read as foreign content: no link is followed, and sizes, numbers and names are bounded."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from packageurl import PackageURL

from gatewright.contracts.inventory import MOST_NAMED, MOST_PACKAGES, InventoryPackage

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


def package_url(kind: str, name: str, version: str) -> str:
    """Return the package URL; ``name`` may begin with a namespace. Raises ValueError if there can be none."""
    namespace, _, own = name.rpartition("/")
    return str(PackageURL(kind, namespace or None, own, version or None))


@dataclass
class InstalledTree:
    """The regular ``files`` below ``root`` by path, with their sizes, and ``others`` but folders; not __pycache__.

    ``start`` is the folder to read, empty for all. Readers fill in the other fields.
    """

    root: Path
    start: str = ""
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
                        self._enter(f"{folder}/{entry.name}".lstrip("/"), entry, waiting)
            except OSError as error:
                self.fault(f"{folder or '.'} cannot be read: {error.strerror or error}")
        if waiting:
            self.fault(f"more than {MOST_ENTRIES} files: the others were not read")

    def _enter(self, path: str, entry: os.DirEntry[str], waiting: list[str]) -> None:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                waiting.append(path)
        elif entry.is_file(follow_symlinks=False):
            self.files[path] = entry.stat(follow_symlinks=False).st_size
        else:
            self.others.add(path)

    def fault(self, words: str) -> None:
        """Record why something was not measured; the last place states that there are more."""
        if len(self.faults) < MOST_NAMED:
            self.faults.append(one_line(words) if len(self.faults) < MOST_NAMED - 1 else "and more")

    def add(self, kind: str, name: object, version: object, **facts: object) -> None:
        """Record a package; one without a usable name is a fault. ``facts`` are further fields."""
        if not (isinstance(name, str) and isinstance(version, str) and name.strip() and name == one_line(name)):
            self.fault(f"a package has no usable name or version: {name!r:.200} {version!r:.100}")
        elif len(self.packages) >= MOST_PACKAGES:
            self.fault(f"more than {MOST_PACKAGES} packages: the others are not listed")
        else:
            try:
                purl = package_url(kind, name, one_line(version))
            except ValueError as error:
                self.fault(f"{name!r:.200} {version!r:.100}: no package URL: {error}")
                return
            kept = {key: value for key, value in facts.items() if value not in {None, ""}}
            self.packages.append(InventoryPackage(name=name, version=one_line(version), purl=one_line(purl), **kept))  # type: ignore[arg-type]

    def read(self, path: str, limit: int = MOST_METADATA) -> bytes | None:
        """Return the content of a file of metadata; None, with a fault, for one that is missing, too large or unreadable."""
        if path not in self.files:
            self.fault(f"there is no plain file {path}")
        elif self.files[path] > limit:
            self.fault(f"{path} has {self.files[path]} bytes, more than {limit}: not read")
        else:
            try:
                with os.fdopen(self._open(path), "rb") as file:
                    return file.read(limit)
            except OSError as error:
                self.fault(f"{path} cannot be read: {error.strerror or error}")
        return None

    def digest(self, path: str, algorithm: str = "sha256") -> bytes | None:
        """Return the digest of a file; None if it is missing, unreadable, or beyond the bytes that are compared."""
        if path not in self.files:
            return None
        self.hashed += self.files[path]
        if self.hashed > MOST_HASHED:
            self.fault(f"more than {MOST_HASHED} bytes: {path} was not compared")
            return None
        digest = hashlib.new(algorithm)
        try:
            with os.fdopen(self._open(path), "rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        except OSError as error:
            self.fault(f"{path} cannot be read: {error.strerror or error}")
            return None
        return digest.digest()

    def _open(self, path: str) -> int:
        # The walk met no link on the way to it; the file itself is checked again, in case a pipe replaced it.
        opened = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError("not a plain file")
        return opened


def named(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the first paths, each as one line."""
    return tuple(one_line(path) for path in sorted(paths)[:MOST_NAMED])
