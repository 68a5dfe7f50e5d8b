"""Advisories about packages in the Open Source Vulnerability format (https://ossf.github.io/osv-schema/).

A file is one record, a list of records, one record per line, or a ZIP of record files, as osv.dev exports them. A package is
affected by a record that lists its version, or whose range of semantic versions contains it. PyPI's records list versions.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from gatewright.contracts.inventory import InventoryPackage
from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

#: Levels of severity in records of GitHub's database; a record without one may be of any.
Severity = Literal["LOW", "MODERATE", "HIGH", "CRITICAL"]
LEVELS: Final[tuple[Severity, ...]] = ("LOW", "MODERATE", "HIGH", "CRITICAL")
_ECOSYSTEMS: Final[Mapping[str, str]] = {"pypi": "PyPI", "npm": "npm", "cargo": "crates.io", "golang": "Go", "maven": "Maven"}
_MOST_BYTES: Final = 1 << 30
_MOST_RECORD: Final = 16 << 20
_SEMVER = re.compile(r"v?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+.*)?")  # noqa: TID251 - linear: bounded parts


class _Event(msgspec.Struct):
    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None


class _Range(msgspec.Struct):
    type: str
    events: list[_Event] | None = None


class _Package(msgspec.Struct):
    ecosystem: str
    name: str


class _Affected(msgspec.Struct):
    package: _Package | None = None
    ranges: list[_Range] | None = None
    versions: list[str] | None = None


class _Record(msgspec.Struct):
    id: str
    aliases: list[str] | None = None
    affected: list[_Affected] | None = None
    withdrawn: str | None = None
    database_specific: dict[str, Any] | None = None


_ONE, _MANY = JsonReader(_Record), JsonReader(list[_Record])


@dataclass(frozen=True, slots=True)
class Advisory:
    """A vulnerability of one package. ``fixed``: versions that no longer have it. ``severity``: None if not stated."""

    ids: tuple[str, ...]
    severity: Severity | None
    ranges: tuple[_Range, ...]
    versions: frozenset[str]

    @property
    def fixed(self) -> tuple[str, ...]:
        """Return the versions that fix it, as the record lists them."""
        return tuple(dict.fromkeys(event.fixed for each in self.ranges for event in each.events or () if event.fixed))

    def affects(self, version: str) -> bool:
        """Return whether a version has the vulnerability. One that cannot be compared with a semantic range has it."""
        plain = version.removeprefix("v")
        if version in self.versions or plain in self.versions:
            return True
        return any(each.type == "SEMVER" and _is_within(each, plain) for each in self.ranges)


class Advisories:
    """The advisories of one file."""

    def __init__(self, records: Iterator[_Record]) -> None:
        self._found: dict[tuple[str, str], list[Advisory]] = {}
        self.count = 0
        for record in records:
            self.count += 1
            for each in (record.affected or ()) if record.withdrawn is None else ():
                if each.package is not None:
                    key = (each.package.ecosystem.partition(":")[0], _plain_name(each.package.ecosystem, each.package.name))
                    self._found.setdefault(key, []).append(_advisory(record, each))

    @classmethod
    def read(cls, path: Path) -> Advisories:
        """Read a file. Raises ConfigurationError: it is missing, too large, or has another form."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ConfigurationError(f"{path} has more than {_MOST_BYTES} bytes")
            return cls(_records(path))
        except (OSError, zipfile.BadZipFile, UnreadableDocumentError, NotImplementedError, EOFError) as error:
            raise ConfigurationError(f"{path} has no advisories: {str(error)[:200]}") from error

    def about(self, package: InventoryPackage) -> tuple[Advisory, ...]:
        """Return the advisories that affect an installed package."""
        kind = package.purl.removeprefix("pkg:").partition("/")[0]
        ecosystem = _ECOSYSTEMS.get(kind, "")
        known = self._found.get((ecosystem, _plain_name(ecosystem, package.name)), ())
        return tuple(advisory for advisory in known if advisory.affects(package.version))


def _records(path: Path) -> Iterator[_Record]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for entry in packed.infolist():
                if entry.filename.endswith(".json") and not entry.is_dir():
                    with packed.open(entry) as file:
                        yield _ONE.decode(_bounded(file.read(_MOST_RECORD + 1)))
        return
    data = path.read_bytes()
    if data.lstrip()[:1] == b"[":
        yield from _MANY.decode(data)
    elif path.suffix == ".jsonl":
        yield from (_ONE.decode(_bounded(line)) for line in io.BytesIO(data) if line.strip())
    else:
        yield _ONE.decode(data)


def _bounded(data: bytes) -> bytes:
    if len(data) > _MOST_RECORD:
        raise UnreadableDocumentError(f"a record has more than {_MOST_RECORD} bytes")
    return data


def _advisory(record: _Record, affected: _Affected) -> Advisory:
    stated = (record.database_specific or {}).get("severity")
    severity = next((level for level in LEVELS if level == stated), None)
    ids = (record.id, *(record.aliases or ()))
    return Advisory(ids, severity, tuple(affected.ranges or ()), frozenset(affected.versions or ()))


def _plain_name(ecosystem: str, name: str) -> str:
    """Return the form of a name in which an ecosystem compares it."""
    return re.sub(r"[-_.]+", "-", name).lower() if ecosystem == "PyPI" else name  # noqa: TID251 - linear


def _is_within(each: _Range, version: str) -> bool:
    """Return whether a range contains ``version``, by its sorted events."""
    try:
        at, affected = _semver(version), False
        named = (msgspec.structs.asdict(event).items() for event in each.events or ())
        events = [(name, value) for items in named for name, value in items if value]
        for name, value in sorted(events, key=lambda event: _semver(event[1])):
            bound = _semver(value)
            if name == "introduced" and bound <= at:
                affected = True
            elif (name == "fixed" and bound <= at) or (name == "last_affected" and bound < at):
                affected = False
    except ValueError:
        return True
    return affected


def _semver(text: str) -> _Version:
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise ValueError(text[:100])
    numbers = tuple(int(part or 0) for part in found.groups()[:3])
    return _Version(numbers, tuple((found[4] or "").split(".")) if found[4] else ())


@dataclass(frozen=True, slots=True)
class _Version:
    """A semantic version, in its order (https://semver.org, item 11)."""

    numbers: tuple[int, ...]
    before: tuple[str, ...]

    def __lt__(self, other: _Version) -> bool:
        if self.numbers != other.numbers or not self.before or not other.before:
            return (self.numbers, not self.before) < (other.numbers, not other.before)
        for mine, theirs in zip_longest(self.before, other.before):
            if mine != theirs:
                return mine is None or (theirs is not None and _rank(mine) < _rank(theirs))
        return False

    def __le__(self, other: _Version) -> bool:
        return not other < self


def _rank(part: str) -> tuple[bool, int, str]:
    """Numbers come before words, and compare as numbers."""
    return (False, int(part), "") if part.isdigit() else (True, 0, part)
