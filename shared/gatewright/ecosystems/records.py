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
- ``interpreter``: ``path``, and ``places``, the folders of the workspace that it searches for modules
- ``variable``: ``name`` and ``text``, of the environment in which the tests run
- ``function``: of a recorded file: ``path``, ``name``, ``line``, and ``counts`` of its calls: all, unserialisable
- ``call``: ``id`` of the test, ``path``, ``name``, ``line``, ``data``, ``text``, ``digest``: see ``RecordedCall``
- ``replayed``: ``line``, the number of the call; ``name``, how it ended; ``digest``, ``printed``, ``text``
- ``end``: ``status``, the exit code that the framework is about to give

An id may have several lines, like a title. It is stored as one line, in which ``\\n`` stands for the end of a line.

The pipe is append-only: a record cannot be withdrawn. A record without the token is forged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from gatewright.ecosystems.port import RecordedCall
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

#: Bytes of one record with its line end: what Linux writes to a pipe in one piece (PIPE_BUF).
LONGEST = 4096
#: Maximum tests, files and modules that one run may report; a report beyond it is not trusted.
MOST = 500_000

Outcome = Literal["passed", "failed", "skipped"]


class Record(msgspec.Struct, frozen=True):
    """A line, with the fields of every kind."""

    token: str
    kind: Literal[
        "begin",
        "collected",
        "test",
        "loaded",
        "touched",
        "took",
        "origin",
        "patched",
        "interpreter",
        "variable",
        "function",
        "call",
        "replayed",
        "end",
    ]
    framework: str = ""
    version: str = ""
    id: str = ""
    outcome: Outcome | None = None
    name: str = ""
    path: str = ""
    line: int = 0
    milliseconds: int = 0
    status: int | None = None
    data: str = ""
    text: str = ""
    digest: str = ""
    printed: str = ""
    places: tuple[str, ...] = ()
    counts: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class CallCounts:
    """The calls of one function: all, and those whose arguments cannot be serialised."""

    path: str
    name: str
    line: int
    calls: int
    opaque: int


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """How a repeated call ended (``returned``, ``raised``, else why it could not be repeated); digests of the result and of
    its output, and the result for people."""

    ended: str
    digest: str
    printed: str
    text: str


@dataclass
class RunnerReport:
    """The records of one test run. ``outcomes`` by id; an id that was reported twice is in ``duplicates``."""

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
    #: The interpreter of the tests, and the folders of the workspace that it searches.
    interpreter: str = ""
    places: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    functions: list[CallCounts] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    #: By the number of the call.
    replayed: dict[int, RepeatedCall] = field(default_factory=dict)
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


Table = Mapping[str, str]
_ENDS: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def one_line(text: str) -> str:
    """``text`` as an id that a table can hold, which has one a line, with a tab behind it."""
    return text.translate(_ENDS)


def write_table(table: Table) -> bytes:
    """Return ``table`` as text: one ``id TAB outcome`` a line, sorted; a test that did not run has an empty outcome."""
    lines = sorted(f"{one_line(each)}\t{outcome}\n" for each, outcome in table.items())
    return "".join(lines).encode("utf-8", "backslashreplace")


def read_table(data: bytes) -> dict[str, str]:
    """Return the table of ``write_table``. Raises UnicodeDecodeError."""
    return {each: outcome for line in data.decode().split("\n") for each, tab, outcome in (line.rpartition("\t"),) if tab}


_decoder = JsonReader(Record)


def read_records(lines: Iterable[bytes], token: str) -> RunnerReport:
    """Return the result of ``lines``; a malformed line, or one with another token, is forged."""
    report = RunnerReport()
    for line in lines:
        try:
            record = _decoder.decode(line)
        except UnreadableDocumentError:
            report.forged += 1
            continue
        if record.token != token:
            report.forged += 1
        elif _count_records(report) >= MOST:
            report.overflow = True
        else:
            _take(report, record)
    return report


def _count_records(report: RunnerReport) -> int:
    kinds = (report.outcomes, report.collected, report.loaded, report.took, report.origins, report.patched)
    return (
        sum(map(len, kinds))
        + len(report.functions)
        + len(report.calls)
        + len(report.replayed)
        + len(report.variables)
        + report.touches
    )


def _take(report: RunnerReport, record: Record) -> None:
    match record.kind:
        case "begin":
            report.begun += 1
            report.framework, report.version = record.framework, record.version
        case "collected":
            report.collected.add(one_line(record.id))
        case "test" if record.outcome is not None:
            name = one_line(record.id)
            if name in report.outcomes:
                report.duplicates.add(name)
            # A reported failure is final: later reports do not change it.
            if report.outcomes.get(name) != "failed":
                report.outcomes[name] = record.outcome
        case "loaded":
            report.loaded.add(record.path)
        case "origin":
            report.origins[record.name] = record.path
        case "patched":
            report.patched[record.name] = record.path
        case "end" if record.status is not None:
            report.ends.append(record.status)
        case "test" | "end":
            report.forged += 1
        case _:
            _take_details(report, record)


def _take_details(report: RunnerReport, record: Record) -> None:
    match record.kind:
        case "touched":
            report.touches += 1
            report.touched.setdefault((record.path, record.line), set()).add(one_line(record.id))
        case "took":
            report.took[one_line(record.path)] = record.milliseconds
        case "interpreter":
            report.interpreter, report.places = record.path, record.places
        case "variable":
            report.variables[record.name] = record.text
        case "function":
            report.functions.append(CallCounts(record.path, record.name, record.line, *record.counts))
        case "call":
            test, digest = one_line(record.id), record.digest
            call = RecordedCall(test, record.path, record.name, record.line, record.data, record.text, digest)
            report.calls.append(call)
        case "replayed" if record.line in report.replayed:
            report.forged += 1
        case "replayed":
            report.replayed[record.line] = RepeatedCall(record.name, record.digest, record.printed, record.text)
