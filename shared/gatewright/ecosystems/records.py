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
- ``origin``: ``name``, ``path``: a top-level module of the workspace that came from elsewhere
- ``patched``: ``name``, ``path``: something of the runner that is not what the runner brought, or an outcome that was changed
  on its way out; and the file of the workspace that does it, empty where that is not known
- ``end``: ``status``, the exit code that the framework is about to give

The pipe can be written to, never rewritten: what a test has told stays told. A record without the token is counted as forged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

#: Bytes of one record with its line end: what Linux writes to a pipe in one piece (PIPE_BUF).
LONGEST = 4096
#: Tests, files and modules that one run may tell; whatever tells more is not believed.
MOST = 500_000

Outcome = Literal["passed", "failed", "skipped"]


class Record(msgspec.Struct, frozen=True):
    """One line, with the fields of every kind."""

    token: str
    kind: Literal["begin", "collected", "test", "loaded", "touched", "origin", "patched", "end"]
    framework: str = ""
    version: str = ""
    id: str = ""
    outcome: Outcome | None = None
    name: str = ""
    path: str = ""
    line: int = 0
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


_decoder = msgspec.json.Decoder(Record)


def read_records(lines: Iterable[bytes], token: str) -> Told:
    """What ``lines`` come to; a line that is no record, or carries another token, is forged."""
    told = Told()
    for line in lines:
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError):
            told.forged += 1
            continue
        if record.token != token:
            told.forged += 1
        elif (
            len(told.outcomes) + len(told.collected) + len(told.loaded) + len(told.origins) + len(told.patched) + told.touches
            >= MOST
        ):
            told.overflow = True
        else:
            _take(told, record)
    return told


def _take(told: Told, record: Record) -> None:
    match record.kind:
        case "begin":
            told.begun += 1
            told.framework, told.version = record.framework, record.version
        case "collected":
            told.collected.add(record.id)
        case "test" if record.outcome is not None:
            if record.id in told.outcomes:
                told.duplicates.add(record.id)
            # What was told to have failed stays so, whatever is told later.
            if told.outcomes.get(record.id) != "failed":
                told.outcomes[record.id] = record.outcome
        case "loaded":
            told.loaded.add(record.path)
        case "touched":
            told.touches += 1
            told.touched.setdefault((record.path, record.line), set()).add(record.id)
        case "origin":
            told.origins[record.name] = record.path
        case "patched":
            told.patched[record.name] = record.path
        case "end" if record.status is not None:
            told.ends.append(record.status)
        case _:
            told.forged += 1
