"""The records that a reporter writes to its pipe, and the result of a test run. Pure; the input is hostile.

One record is one line of JSON, at most ``LONGEST`` bytes, so that several processes can write to one pipe. Every record has
``token``, ``kind`` and the fields of its kind:

- ``begin``: ``framework``, ``version``
- ``collected``: ``id``
- ``test``: ``id``, ``outcome`` (passed, failed, skipped); an expected failure is skipped; if such
  a test passes, its framework decides the outcome
- ``loaded``: ``path``, of a file of the workspace, relative to it
- ``touched``: ``id``, ``path``, ``line``: an ordered line, and a test that ran it; the id is empty for a line that runs
  while tests are loaded
- ``took``: ``path``, ``milliseconds``: the load time of a test file, as the runner reports it; the code under test may
  influence it, so it only affects time limits
- ``origin``: ``name``, ``path``: a top-level module of the workspace that came from elsewhere
- ``patched``: ``name``, ``path``: a replaced part of the runner, or an outcome that was changed before it was
  reported; and the workspace file that does it, empty if unknown
- ``end``: ``status``, the exit code that the framework is about to give

An id may have several lines, like a title. It is stored as one line, in which ``\\n`` stands for the end of a line.

The pipe is append-only: a record cannot be withdrawn. A record without the token is forged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

#: Bytes of one record with its line end: what Linux writes to a pipe in one piece (PIPE_BUF).
LONGEST = 4096
#: Maximum tests, files and modules that one run may report; a report beyond it is not trusted.
MOST = 500_000

Outcome = Literal["passed", "failed", "skipped"]


class Record(msgspec.Struct, frozen=True):
    """A line, with the fields of every kind."""

    token: str
    kind: Literal["begin", "collected", "test", "loaded", "touched", "took", "origin", "patched", "end"]
    framework: str = ""
    version: str = ""
    id: str = ""
    outcome: Outcome | None = None
    name: str = ""
    path: str = ""
    line: int = 0
    milliseconds: int = 0
    status: int | None = None


@dataclass
class Told:
    """The reports of one run. ``outcomes`` by id; an id that was reported twice is in ``duplicates``."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    duplicates: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    #: The tests that run each of the ordered lines.
    touched: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    touches: int = 0
    #: Milliseconds by file of tests.
    took: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    #: Replaced parts of the runner, with the file of each replacement.
    patched: dict[str, str] = field(default_factory=dict)
    framework: str = ""
    version: str = ""
    #: The exit code of each ``end``; several where the command starts the framework several times.
    ends: list[int] = field(default_factory=list)
    begun: int = 0
    forged: int = 0
    overflow: bool = False

    @property
    def complete(self) -> bool:
        """Return whether each started framework ended, and no foreign record arrived."""
        return self.begun > 0 and len(self.ends) == self.begun and not self.forged and not self.overflow


_ENDS: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def one_line(text: str) -> str:
    """``text`` as an id that a table can hold, which has one a line, with a tab behind it."""
    return text.translate(_ENDS)


_decoder = JsonReader(Record)


def read_records(lines: Iterable[bytes], token: str) -> Told:
    """Return the result of ``lines``; a malformed line, or one with another token, is forged."""
    told = Told()
    for line in lines:
        try:
            record = _decoder.decode(line)
        except UnreadableDocumentError:
            told.forged += 1
            continue
        if record.token != token:
            told.forged += 1
        elif _size(told) >= MOST:
            told.overflow = True
        else:
            _take(told, record)
    return told


def _size(told: Told) -> int:
    kinds = (told.outcomes, told.collected, told.loaded, told.took, told.origins, told.patched)
    return sum(map(len, kinds)) + told.touches


def _take(told: Told, record: Record) -> None:
    match record.kind:
        case "begin":
            told.begun += 1
            told.framework, told.version = record.framework, record.version
        case "collected":
            told.collected.add(one_line(record.id))
        case "test" if record.outcome is not None:
            name = one_line(record.id)
            if name in told.outcomes:
                told.duplicates.add(name)
            # A reported failure is final: later reports do not change it.
            if told.outcomes.get(name) != "failed":
                told.outcomes[name] = record.outcome
        case "loaded":
            told.loaded.add(record.path)
        case "touched":
            told.touches += 1
            told.touched.setdefault((record.path, record.line), set()).add(one_line(record.id))
        case "took":
            told.took[one_line(record.path)] = record.milliseconds
        case "origin":
            told.origins[record.name] = record.path
        case "patched":
            told.patched[record.name] = record.path
        case "end" if record.status is not None:
            told.ends.append(record.status)
        case _:
            told.forged += 1
