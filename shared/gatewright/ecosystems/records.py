"""What a reporter tells through its pipe, and what a run of tests comes to. Pure; the input is hostile.

One record is one line of JSON, at most ``LONGEST`` bytes, so that several processes can write to one pipe. Every record has
``token``, ``kind`` and the fields of its kind:

- ``begin``: ``framework``, ``version``
- ``collected``: ``id``
- ``test``: ``id``, ``outcome`` (passed, failed, skipped); a test that is expected to fail and does is skipped, one that is
  expected to fail and passes is what its framework makes of it
- ``loaded``: ``path``, of a file of the workspace, relative to it
- ``touched``: ``id``, ``path``, ``line``: a line that was asked about, and a test that ran it; the id is empty for one that is
  run while tests are loaded
- ``took``: ``path``, ``milliseconds``: how long it took to load a file of tests, as far as the runner says; the code under
  test may have a hand in it, so that it decides about time alone
- ``origin``: ``name``, ``path``: a top-level module of the workspace that came from elsewhere
- ``patched``: ``name``, ``path``: something of the runner that is not what the runner brought, or an outcome that was changed
  on its way out; and the file of the workspace that does it, empty where that is not known
- ``end``: ``status``, the exit code that the framework is about to give

An id may have several lines, as a title may: it is taken as one, in which ``\\n`` stands for the end of a line.

The pipe can be written to, never rewritten: what a test has told stays told. A record without the token is counted as forged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

#: Bytes of one record with its line end: what Linux writes to a pipe in one piece (PIPE_BUF).
LONGEST = 4096
#: Tests, files and modules that one run may tell; whatever tells more is not believed.
MOST = 500_000

Outcome = Literal["passed", "failed", "skipped"]


class Record(msgspec.Struct, frozen=True):
    """One line, with the fields of every kind."""

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
    """One run as it was told. ``outcomes`` by id; an id that was told twice is in ``duplicates``."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    duplicates: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    #: Tests by the lines, of those that were asked about, that they run.
    touched: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    touches: int = 0
    #: Milliseconds by file of tests.
    took: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    #: What of the runner was not its own, with the file that is in its place.
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
        """Whether each start of the framework came to its end, and nothing was told by a stranger."""
        return self.begun > 0 and len(self.ends) == self.begun and not self.forged and not self.overflow


_ENDS: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def one_line(text: str) -> str:
    """``text`` as an id that a table can hold, which has one a line, with a tab behind it."""
    return text.translate(_ENDS)


_decoder = JsonReader(Record)


def read_records(lines: Iterable[bytes], token: str) -> Told:
    """What ``lines`` come to; a line that is no record, or carries another token, is forged."""
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
            # What was told to have failed stays so, whatever is told later.
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
