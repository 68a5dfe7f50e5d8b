"""The environments that a command sees besides the system, and the records of those that were made for a run."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.sandbox.images import ImageRoot

#: The ecosystems of which an environment can be made.
Ecosystem = Literal["python", "node", "rust", "go", "java"]
#: In an environment made for a baseline: its sources, its tool, and where commands look for it.
PREPARED: Final = "gatewright-environment.json"
#: Beside that record: the requests of its installer, one per line, chained by digest.
EGRESS_LOG: Final = "gatewright-egress.jsonl"
#: Folders in which vite, vitest before 1.0, babel, tsc and similar keep caches, inside otherwise read-only packages.
CACHES: Final = (".cache", ".tmp", ".vite", ".vite-temp", ".vitest")
_MOST_BYTES: Final = 16 * 1024 * 1024
#: Variables for the tools of an ecosystem with a prepared environment; ``@PREFIX@`` stands for its path.
_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "rust": {"CARGO_HOME": "@PREFIX@/cargo", "CARGO_NET_OFFLINE": "true"},
    "go": {"GOMODCACHE": "@PREFIX@/modules", "GOPROXY": "off", "GOTOOLCHAIN": "local"},
    "java": {"MAVEN_OPTS": "-Dmaven.conf=@PREFIX@/maven"},
}


class EgressSummary(msgspec.Struct, frozen=True):
    """The requests of an installer. ``head`` is the digest of the last line of the environment's egress log."""

    requests: int
    refused: int
    bytes: int
    head: str


class PreparedEnvironment(msgspec.Struct, frozen=True):
    """The record of an environment that was made for a baseline.

    ``mounts``: folder below the environment by the place in the repository where commands find it. ``results`` are digests of
    lists of what was installed, by name. ``egress`` is missing where no installer had a network.
    """

    tool: str
    sources: dict[str, str]
    installs: str = ""
    ecosystem: Ecosystem = "python"
    mounts: dict[str, str] = {}
    results: dict[str, str] = {}
    egress: EgressSummary | None = None

    def variables(self, prefix: Path) -> dict[str, str]:
        """Return the variables for commands."""
        given = _VARIABLES.get(self.ecosystem, {})
        if self.ecosystem == "java" and len(str(prefix).split()) > 1:
            # mvn splits its own variable at each space. With this one, java prints a note.
            given = {"JDK_JAVA_OPTIONS": '"-Dmaven.conf=@PREFIX@/maven"'}
        return {name: value.replace("@PREFIX@", str(prefix)) for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class ShownFolder:
    """``path`` is absolute; ``at`` a path in the workspace, empty for a prefix visible at its own path."""

    path: Path
    at: str = ""


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of one command; the first one's programs take precedence. ``image`` replaces the host's system."""

    folders: tuple[ShownFolder, ...]
    image: ImageRoot | None = None

    @property
    def prefixes(self) -> tuple[Path, ...]:
        """Return the folders that are visible at their own path."""
        return tuple(folder.path for folder in self.folders if not folder.at)

    @property
    def watched(self) -> tuple[Path, ...]:
        """Return all host folders whose state affects a command."""
        image = (self.image.files,) if self.image is not None else ()
        return (*dict.fromkeys(folder.path for folder in self.folders), *image)

    def program_folders(self, workspace: str | None = None) -> tuple[str, ...]:
        """Return folders of packages' programs, searched after the system's; on the host, or in a ``workspace`` inside."""
        mounts = ((source, place) for source, place in self.mounts() if place.rpartition("/")[2] == "node_modules")
        return tuple(f"{source}/.bin" if workspace is None else f"{workspace}/{place}/.bin" for source, place in mounts)

    def mounts(self) -> tuple[tuple[Path, str], ...]:
        """Return (host folder, path in the workspace) pairs. Raises ConfigurationError for an invalid record."""
        found = [(folder.path, safe_place(folder.at)) for folder in self.folders if folder.at]
        for prefix in self.prefixes:
            record = read_record(prefix)
            for place, inside in sorted(record.mounts.items()) if record is not None else ():
                source = prefix / inside
                real = Path(os.path.realpath(source))  # ``resolve`` raises RuntimeError for links that lead to each other
                if posixpath.isabs(inside) or not real.is_relative_to(prefix.resolve()) or not source.is_dir():
                    raise ConfigurationError(f"{prefix / PREPARED} names {inside!r}, which is no folder of the environment")
                found.append((source, safe_place(place)))
        _refuse_overlapping(place for _, place in found)
        return tuple(found)


Shown = Path | Environments | None


def environments_of(shown: Shown) -> Environments:
    """The same as one type: a path is a single prefix."""
    if isinstance(shown, Environments):
        return shown
    return Environments(() if shown is None else (ShownFolder(shown),))


def read_record(prefix: Path) -> PreparedEnvironment | None:
    """Return the record of an environment from its creation; None for any other, and for an unreadable one."""
    try:
        with (prefix / PREPARED).open("rb") as stream:
            return read_json(stream.read(_MOST_BYTES), PreparedEnvironment)
    except (OSError, UnreadableDocumentError):
        return None


def caches_of(folder: Path) -> tuple[str, ...]:
    """Return the folders among Node packages that tools write to at run time: each command gets empty ones of its own."""
    return tuple(name for name in CACHES if (folder / name).is_dir() and not (folder / name).is_symlink())


def safe_place(place: str) -> str:
    """``place``, when it is a path in a workspace. Raises ConfigurationError."""
    parts = place.split("/")
    if posixpath.isabs(place) or "\0" in place or any(part in {"", ".", "..", ".git"} for part in parts):
        raise ConfigurationError(f"{place!r} is no place in a repository where a folder can be shown")
    return place


def _refuse_overlapping(places: Iterable[str]) -> None:
    seen: set[str] = set()
    for place in sorted(places, key=lambda each: each.count("/")):
        parts = place.split("/")
        if any("/".join(parts[:depth]) in seen for depth in range(1, len(parts) + 1)):
            raise ConfigurationError(f"two environments are to be shown at {place}, or one within the other")
        seen.add(place)
