"""What an ecosystem knows about a test command. Types only; one package beside this module for each ecosystem.

A command is run three times at most, each time in a workspace of its own:

- ``ALL``: as the contract has it, and each test's id and outcome is told (``records.py``);
- ``CONTROL``: on the candidate with two planted tests, one that must fail and one that must pass; nothing else is run, but
  everything is collected, so that whatever keeps tests from running keeps the planted ones from running, too;
- ``COLLECT``: on the baseline; the ids are told, and only the tests named in ``only`` are run.
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


class TreeFiles(Protocol):
    """A tree as far as it must be looked at: names without contents, and contents one by one. Paths are POSIX, relative."""

    @property
    def paths(self) -> frozenset[str]:
        """Every file whose name is UTF-8."""

    async def read(self, path: str) -> bytes | None:
        """The content of a regular file of at most a megabyte; None for anything else."""


class _NoFiles:
    paths: frozenset[str] = frozenset()

    async def read(self, path: str) -> bytes | None:
        del path
        return None


#: A tree without a file: for questions that the words alone answer.
NO_FILES: TreeFiles = _NoFiles()


@dataclass(frozen=True, slots=True)
class Sentinel:
    """Two planted tests: ``files`` by path, ``failing`` and ``passing`` the ids that their reporter will tell.

    Files are new ones; where tests must be declared, also whole files of the tree with something added.
    """

    files: Mapping[str, bytes]
    failing: str
    passing: str


@dataclass(frozen=True, slots=True)
class ReporterOrder:
    """What a reporter is told: the ``token`` that its records carry, what to run, and where the pipe is (a path inside).

    ``only`` are ids; for a control those of the planted tests, whose files are ``planted``. ``workspace`` is the place of the
    files inside. ``lines``: of these, from 1, by path, it is to be told which tests run them, where the reporter can.
    ``took``: milliseconds that files of tests took to load on the baseline, for a control that loads some of them; empty where
    they are not known.
    ``checks``: whether a command that checks sources beside its tests has to (``go vet``); the contract's own run does.
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


@dataclass(frozen=True, slots=True)
class Instruments:
    """``files`` go into the folder of additions under these names, ``variables`` into the environment of the command.

    ``@FOLDER@`` in a value stands for the folder as the command finds it, ``@PATH@`` for what PATH is without these. Files
    below ``bin`` are programs.
    """

    files: Mapping[str, bytes]
    variables: Mapping[str, str]


class Framework(Protocol):
    """One test framework of an ecosystem; without state, so that one object serves every command."""

    @property
    def name(self) -> str:
        """What the bundle records: ``pytest``, say."""

    @property
    def languages(self) -> frozenset[str]:
        """Of ``gatewright.syntax_trees``: those that its tests are about; empty where they may be about any."""

    @property
    def tells_files(self) -> bool:
        """Whether its reporter tells which files of the workspace a run loads, and which tests run a line."""

    def may_start(self, argv: Sequence[str]) -> bool:
        """Whether ``argv`` alone lets it be: asked first, because it costs nothing. A tree is listed only after a yes."""

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """Whether ``argv`` starts this framework on ``tree``, directly or through what the tree says (npm test, make test)."""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """What makes the command tell its tests."""

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """Two tests in the suite's own style, where ``draw`` puts them and the command looks; None: there is no place."""


def write_instruments(additions: Path, instruments: Instruments) -> None:
    """Write the files of ``instruments`` into ``additions``, readable for the account that runs the command."""
    for name, content in instruments.files.items():
        place = additions / name
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if name.startswith(PROGRAMS) else 0o644)
