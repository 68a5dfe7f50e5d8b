"""Search for the programs of agents and tool servers on this host, in the operator's folders. Reads files, runs nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final, Generic, TypeVar

from gatewright.agents.policy import AgentEntry, ProgramEntry
from gatewright.errors import UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: The setting of the worker and of the command line that names the folders.
SETTING: Final = "GATEWRIGHT_AGENT_INSTALLATIONS"
_LARGEST_PACKAGE: Final = 1 << 20


Entry = TypeVar("Entry", bound=ProgramEntry)


@dataclass(frozen=True)
class InstalledProgram(Generic[Entry]):
    """A program that is there. ``argv`` starts it; ``folder`` is the installation, which the box has to show."""

    entry: Entry
    folder: Path
    argv: tuple[str, ...]
    version: str

    @property
    def version_holds(self) -> bool:
        """Return whether the version is one that the entry names."""
        return self.entry.versions.hold(self.version)


InstalledAgent = InstalledProgram[AgentEntry]


def find_agent(entry: Entry, installations: Iterable[Path]) -> InstalledProgram[Entry] | None:
    """The program in the first installation that has a fitting version, else in the first that has any; None where none has."""
    found = tuple(_installed_agents(entry, installations))
    return next((each for each in found if each.version_holds), next(iter(found), None))


def _installed_agents(entry: Entry, installations: Iterable[Path]) -> Iterator[InstalledProgram[Entry]]:
    for folder in installations:
        program = _first_readable(folder, entry.program)
        interpreter = _first_readable(folder, entry.interpreter) if entry.interpreter else None
        if program is None or (entry.interpreter and interpreter is None):
            continue
        words = (str(program),) if interpreter is None else (str(interpreter), str(program))
        package = next(iter(sorted(folder.glob(entry.package))), folder / entry.package)
        yield InstalledProgram(entry, folder, (*words, *entry.arguments), _version(package))


def usable_agent(entry: Entry, installations: Sequence[Path]) -> InstalledProgram[Entry]:
    """The same. Raises UnavailableError (``agent_not_installed``) where it is not there, or of another version."""
    found = find_agent(entry, installations)
    if found is None:
        where = ", ".join(map(str, installations)) or f"no folder: {SETTING} names none"
        raise UnavailableError(f"{entry.name} is not installed here (looked in {where})", code="agent_not_installed")
    if not found.version_holds:
        wanted = f"from {entry.versions.since} on and before {entry.versions.before}"
        words = f"{entry.name} is {found.version or 'of no version'} here, and agents.json takes versions {wanted}"
        raise UnavailableError(words, code="agent_not_installed")
    return found


def _first_readable(folder: Path, places: Iterable[str]) -> Path | None:
    for place in places:
        file = folder / place
        if file.is_file() and os.access(file, os.R_OK):
            return file
    return None


def _version(package: Path) -> str:
    """Return the version in a ``package.json``, or in a ``METADATA`` of a Python package; empty for anything else."""
    try:
        with package.open("rb") as file:
            data = file.read(_LARGEST_PACKAGE)
        if package.name == "METADATA":
            return str(HeaderParser().parsestr(data.decode()).get("Version", ""))
        document = read_json(data)
    except (OSError, UnicodeDecodeError, UnreadableDocumentError):
        return ""
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else ""
