"""What a sandbox is, for those who use one, and what it asks of the place it runs in.

Types only: the implementations are ``bubblewrap.py`` and ``unconfined.py``, and ``gatewright.workspace`` makes the places.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from gatewright.sandbox.environments import Shown
from gatewright.sandbox.limits import SandboxLimits

#: Why a command was killed; the empty string when it ended by itself.
Stopped = Literal["", "time", "output", "memory", "processes", "disk"]

#: Where a sandboxed command finds the folder of its additions.
ADDITIONS_INSIDE = "/gatewright"

#: 1980-01-01: the earliest time a zip archive can hold.
SOURCE_DATE_EPOCH = 315_532_800


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended, with all of its descendants.

    ``exit_code`` is 128 + N after signal N, 127 when there is no such program, 126 when it cannot be executed. ``stdout`` and
    ``stderr`` hold the first ``output_bytes`` bytes of both; ``truncated`` says that there was more.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_seconds: float
    timed_out: bool
    truncated: bool
    stopped: Stopped = ""


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """Whether commands can run here. ``cause`` is for an operator, empty when they can; ``facts`` are for people."""

    available: bool
    cause: str = ""
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder below a command's home that begins as ``lower``, which no command can write to.

    What a command writes there lies in ``written``, a folder that the sandbox makes: a new name below the first of the
    workspace's sources. Only where the workspace is an overlay.
    """

    at: str
    lower: Path
    written: Path

    @property
    def upper(self) -> Path:
        """What the command has written, once it has ended."""
        return self.written / "files"

    @property
    def work(self) -> Path:
        """What the kernel needs beside it."""
        return self.written / "work"


@dataclass(frozen=True, slots=True)
class Additions:
    """What one command gets beyond the system and its environment: a folder of ours, read-only, variables, and ``caches``.

    A pipe in the folder can be written to all the same. ``@FOLDER@`` in the value of a variable stands for the place where the
    command finds the folder, which is ``ADDITIONS_INSIDE`` in a sandbox and the folder itself without one; ``@PATH@`` for what
    PATH is without them.
    """

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[CacheFolder, ...] = ()

    def variables_at(self, place: str, path: str) -> dict[str, str]:
        """The variables for a command that finds the folder at ``place``, and would have ``path`` as its PATH."""
        return {name: value.replace("@FOLDER@", place).replace("@PATH@", path) for name, value in self.variables.items()}


#: Where a program that is talked to finds its home, which is as new as its walls; not below /tmp, where some agents refuse one.
HOME_INSIDE: Final = "/home/agent"
#: 127.0.0.1:DOOR_PORT is the one thing that such a program can connect to: a server of ours.
DOOR_PORT: Final = 8130


@dataclass(frozen=True, slots=True)
class Furnishing:
    """What a program that is talked to gets beyond the system: read-only folders of the host, at their own paths, variables of
    its own, and the files that its home begins with, by path below it. ``kept`` are folders of its home, by path below it, that
    lie in a writable folder of the host and are there when it has ended; all else of the home is gone."""

    shown: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, Path] = field(default_factory=dict)


class WorkingFolder(Protocol):
    """Where a command runs. A ``Workspace`` is one."""

    @property
    def mounts(self) -> tuple[str, ...]:
        """Bubblewrap arguments that put the place, writable, at ``path_inside``."""

    @property
    def sources(self) -> tuple[Path, ...]:
        """Host directories that ``mounts`` names, the writable one first; none for a place in memory."""

    @property
    def path(self) -> Path | None:
        """The directory on the host that holds the files, None for an overlay: only a sandbox can show that."""

    @property
    def scratch(self) -> Path:
        """A private empty directory beside it, removed with it."""

    @property
    def path_inside(self) -> str:
        """Where the command finds the place; its working directory."""

    def has_room(self, place: str) -> bool:
        """Whether a folder can be shown at ``place``, a path below: folders lead there, and what lies there is one, or nothing.

        A link on the way would lead a mount out of the workspace. Not while a command runs.
        """


class Sandbox(Protocol):
    """Runs commands that are not trusted."""

    @property
    def name(self) -> Literal["bubblewrap", "none"]:
        """What the bundle records."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: WorkingFolder,
        prefix: Shown,
        limits: SandboxLimits,
        source_date_epoch: int = SOURCE_DATE_EPOCH,
        additions: Additions | None = None,
    ) -> Completed:
        """Run ``argv`` in ``workspace`` until it and every descendant has ended.

        ``prefix`` is an environment (virtual or not) whose ``bin`` comes first on PATH, or several of them, some of which are
        shown within the workspace. Cancelling kills every descendant and waits for them. Raises SandboxError when the sandbox
        itself fails, ConfigurationError for a prefix that must not be shown, CommandRefusedError for what is not an argv.
        """

    async def probe(self) -> SandboxReport:
        """Run a real command in it, and say what was found."""


class SandboxSession(Protocol):
    """A running program. ``door`` listens inside. Not to be used once its context is left, but for how it ended.

    ``exit_code`` is known then; ``stopped`` as soon as a limit ended it, which shows as the end of its output.
    """

    door: socket.socket
    stopped: Stopped
    exit_code: int | None

    @property
    def complaints(self) -> bytes:
        """The last of its standard error so far."""

    async def read(self) -> bytes:
        """The next bytes of its standard output; none at the end. Nothing is read ahead, so a program that floods us waits."""

    async def write(self, data: bytes) -> None:
        """To its standard input. Waits for one that does not read; raises OSError when it has ended."""

    def finish(self) -> None:
        """The end of its standard input."""


class TalkingSandbox(Protocol):
    """Runs programs that are talked to. There is none without walls: they are all that holds such a program."""

    def session(
        self, argv: Sequence[str], *, workspace: WorkingFolder, prefix: Shown, limits: SandboxLimits, furnishing: Furnishing
    ) -> AbstractAsyncContextManager[SandboxSession]:
        """Start ``argv`` in ``workspace``, to talk to it over pipes. When the context is left, nothing of it runs any more.

        Its ``door`` listens on 127.0.0.1:``DOOR_PORT`` inside, where nothing else can be reached. Raises as ``run`` does.
        """
