"""The interface of an ecosystem to test commands. Types only; one package beside this module for each ecosystem.

A command runs for one purpose at a time, each time in a workspace of its own:

- ``ALL``: as in the contract, with each test's id and outcome reported (``records.py``);
- ``CONTROL``: on the candidate with two planted tests, one that must fail and one that must pass; no other test runs, but
  all are collected, so that a cause that prevents tests from running also prevents the planted ones;
- ``COLLECT``: on the baseline; the ids are reported, and only the tests named in ``only`` run.
- ``REPLAY``: on the candidate; in place of one test, recorded calls are made again and their outcomes reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Protocol

#: Folder of programs that take the place of the real ones, which they start; and the variable that puts it first.
PROGRAMS = "bin/"
OURS_FIRST = {"PATH": "@FOLDER@/bin:@PATH@"}


class Purpose(StrEnum):
    """Why a command is run."""

    ALL = "all"
    CONTROL = "control"
    COLLECT = "collect"
    REPLAY = "replay"


class TreeFiles(Protocol):
    """A tree as far as it must be looked at: names without contents, and contents one by one. Paths are POSIX, relative."""

    @property
    def paths(self) -> frozenset[str]:
        """Return all paths that are UTF-8."""

    async def read(self, path: str) -> bytes | None:
        """Return the content of a regular file of at most a megabyte; None for anything else."""


class _NoFiles:
    paths: frozenset[str] = frozenset()

    async def read(self, path: str) -> bytes | None:
        del path
        return None


#: An empty tree: for questions that the words alone answer.
NO_FILES: TreeFiles = _NoFiles()


@dataclass(frozen=True, slots=True)
class Sentinel:
    """Two planted tests: ``files`` by path, ``failing`` and ``passing`` are the ids that their reporter will report.

    The files are new; if tests must be declared, they include complete files of the tree with additions.
    """

    files: Mapping[str, bytes]
    failing: str
    passing: str


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a function of a changed file, made by ``test``.

    ``name`` is ``module:function``; ``line`` is the function's first. ``data`` is for the reporter alone and is never loaded
    outside of a sandbox. ``arguments`` are for people. ``digest`` is of the result, empty if unknown.
    """

    test: str
    path: str
    name: str
    line: int
    data: str
    arguments: str
    digest: str

    @property
    def where(self) -> tuple[str, str, int]:
        """Return the module, the function's qualified name and its first line."""
        module, _, name = self.name.partition(":")
        return module, name, self.line


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A program that makes recorded calls outside of a test runner: ``files`` by path below the workspace."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class PlainOrder:
    """The order to such a program.

    ``interpreter`` and ``places`` are those of the recorded run, ``folder`` is the working directory, ``variables`` are set,
    and ``name`` is unused in the workspace. The program writes records with ``token`` to its standard output.
    """

    interpreter: str
    places: tuple[str, ...]
    calls: tuple[RecordedCall, ...]
    token: str
    folder: str
    name: str
    workspace: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReporterOrder:
    """The order to a reporter: the ``token`` for its records, what to run, and the pipe (a path inside the sandbox).

    ``only`` are ids; for a control those of the planted tests, whose files are ``planted``. ``workspace`` is the files'
    folder inside. ``lines``: line numbers from 1, by path, for which to report the tests that run them, if the reporter
    can. ``took``: milliseconds that test files took to load on the baseline, for a control that loads some of them; empty
    if unknown. ``recorded``: files whose functions' calls are recorded; ``calls``: those to repeat in a replay. ``checks``:
    whether a command that also checks sources must do so (``go vet``); the contract's own run does.
    """

    purpose: Purpose
    token: str
    pipe: str
    only: tuple[str, ...] = ()
    planted: tuple[str, ...] = ()
    workspace: str = "/workspace"
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)
    took: Mapping[str, int] = field(default_factory=dict)
    checks: bool = True
    recorded: tuple[str, ...] = ()
    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Instruments:
    """Files and variables that instrument a command: ``files`` are put into the folder of additions.

    ``@FOLDER@`` in a value stands for the folder as the command sees it, ``@PATH@`` for the PATH without these. Files below
    ``bin`` are programs.
    """

    files: Mapping[str, bytes]
    variables: Mapping[str, str]


class Replays(Protocol):
    """How a framework's calls are recorded and made again. Its reporter records them, or changed sources do."""

    def record_calls(self, path: str, content: bytes, additions: str) -> bytes | None:
        """Return a source that records its calls, with our files at ``additions``; None: as it is, the reporter records."""

    def plant_calls(self, sentinel: Sentinel, additions: str) -> Mapping[str, bytes]:
        """Return test files that make the recorded calls, in place of those of ``sentinel``; none if the reporter does it."""

    def plain_run(self, order: PlainOrder) -> PlainRun:
        """Return the program that makes the calls of ``order`` outside of a test runner."""


class Framework(Protocol):
    """A test framework of an ecosystem; stateless, so that one object serves every command."""

    @property
    def name(self) -> str:
        """Return the name that the bundle records, for example ``pytest``."""

    @property
    def languages(self) -> frozenset[str]:
        """Return the languages of ``gatewright.syntax_trees`` that its tests cover; empty if any."""

    @property
    def reports_files(self) -> bool:
        """Return whether its reporter reports the files that a run loads, and the tests that run a line."""

    @property
    def package_files(self) -> tuple[str, ...]:
        """Return the ends of file names that make a folder a package with tests of its own; none if unknown."""

    @property
    def replays(self) -> Replays | None:
        """Return how calls of changed functions are recorded and made again; None if they are not."""

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether ``argv`` alone may start it. Called first, because it is free; the tree is listed only after True."""

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """Return whether ``argv`` starts this framework on ``tree``, directly or indirectly (npm test, make test)."""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """Return the files and variables that make the command report its tests."""

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """Return two tests in the suite's style, where ``draw`` puts them and the command looks; None if there is no place."""


class PlainFramework:
    """A framework that the command alone starts, without the files of a tree."""

    __slots__ = ()

    async def recognises(self: Framework, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``."""
        del tree
        return self.may_start(argv)


def write_instruments(additions: Path, instruments: Instruments) -> None:
    """Write the files of ``instruments`` into ``additions``, readable for the account that runs the command."""
    for name, content in instruments.files.items():
        place = additions / name
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if name.startswith(PROGRAMS) else 0o644)
