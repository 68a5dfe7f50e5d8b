"""The interface of a sandbox for its users, and its requirements for a working folder.

Types only: the implementations are ``bubblewrap.py`` and ``unconfined.py``; ``gatewright.workspace`` makes working folders.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from gatewright.sandbox.environments import Shown
from gatewright.sandbox.limits import SandboxLimits

#: Why a command was killed; the empty string when it ended by itself.
Stopped = Literal["", "time", "output", "memory", "processes", "disk"]

#: The path of a sandboxed command's additions.
ADDITIONS_INSIDE = "/gatewright"

#: 1980-01-01: the earliest time a zip archive can hold.
SOURCE_DATE_EPOCH = 315_532_800


class NetworkAttempts(NamedTuple):
    """Destinations outside of the box that had no route, by the version of the internet protocol."""

    ipv4: int
    ipv6: int


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended, with all of its descendants.

    ``exit_code`` is 128 + N after signal N, 127 for a missing program, 126 if it cannot be executed. ``stdout`` and
    ``stderr`` hold the first ``output_bytes`` bytes of both; ``truncated`` means that there was more. ``attempts``: None
    without a network of its own.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_seconds: float
    timed_out: bool
    truncated: bool
    stopped: Stopped = ""
    attempts: NetworkAttempts | None = None


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """Whether commands can run here. ``cause`` is for operators, empty if they can; ``facts`` are for people."""

    available: bool
    cause: str = ""
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder below a command's home that starts as ``lower``, which no command can write to.

    Writes go to ``written``, a folder that the sandbox makes: a new name below the first of the workspace's sources. Only
    if the workspace is an overlay.
    """

    at: str
    lower: Path
    written: Path

    @property
    def upper(self) -> Path:
        """Return the folder of the command's writes, after it has ended."""
        return self.written / "files"

    @property
    def work(self) -> Path:
        """Return the kernel's work folder beside it."""
        return self.written / "work"


@dataclass(frozen=True, slots=True)
class Additions:
    """The additions of one command to the system and its environment: a read-only folder of ours, variables, ``caches``.

    A pipe in the folder is still writable. ``@FOLDER@`` in the value of a variable stands for the folder as the command
    sees it, which is ``ADDITIONS_INSIDE`` in a sandbox and the folder itself without one; ``@PATH@`` for the PATH without
    them.
    """

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[CacheFolder, ...] = ()

    def variables_at(self, place: str, path: str) -> dict[str, str]:
        """The variables for a command that finds the folder at ``place``, and would have ``path`` as its PATH."""
        return {name: value.replace("@FOLDER@", place).replace("@PATH@", path) for name, value in self.variables.items()}


#: The home of an interactive program, new for each sandbox; not below /tmp, where some agents refuse one.
HOME_INSIDE: Final = "/home/agent"
#: 127.0.0.1:DOOR_PORT is the one thing that such a program can connect to: a server of ours.
DOOR_PORT: Final = 8130


@dataclass(frozen=True, slots=True)
class Furnishing:
    """The additions for an interactive program to the system: read-only host folders at their own paths, variables, and the
    initial files of its home, by path below it. ``kept`` are writable host folders that stay after its end, by path below its
    home or absolute; the rest of the home is removed.
    """

    shown: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, Path] = field(default_factory=dict)


class WorkingFolder(Protocol):
    """The folder in which a command runs. A ``Workspace`` is one."""

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
        """Return a private empty directory beside it, removed with it."""

    @property
    def path_inside(self) -> str:
        """Return the path of the folder inside; the working directory."""

    def has_room(self, place: str) -> bool:
        """Return whether a folder can be mounted at ``place``, a path below: parents are folders, and it is one or missing.

        A link in the path would lead a mount out of the workspace. Not while a command runs.
        """


class Sandbox(Protocol):
    """Runs commands that are not trusted."""

    @property
    def name(self) -> Literal["bubblewrap", "none"]:
        """Return the name that the bundle records."""

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

        ``prefix`` is an environment (virtual or not) whose ``bin`` comes first on PATH, or several of them, some mounted in
        the workspace. Cancelling kills every descendant and waits for them.

        Raises:
            SandboxError: the sandbox itself fails.
            ConfigurationError: a prefix must not be visible.
            CommandRefusedError: an invalid argv.
        """

    async def probe(self) -> SandboxReport:
        """Run a real command in it, and return the findings."""


class SandboxSession(Protocol):
    """A running program. ``door`` listens inside. After its context, only the exit state may be read.

    ``exit_code`` and ``attempts`` are known then; ``stopped`` as soon as a limit ended it, which shows as the end of its
    output.
    """

    door: socket.socket
    stopped: Stopped
    exit_code: int | None
    attempts: NetworkAttempts | None

    @property
    def complaints(self) -> bytes:
        """The last of its standard error so far."""

    async def read(self) -> bytes:
        """Return the next bytes of its standard output; none at the end. Nothing is read ahead, so a flooding program must
        wait."""

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Waits for a program that does not read; raises OSError if it has ended."""

    def finish(self) -> None:
        """The end of its standard input."""


class TalkingSandbox(Protocol):
    """Runs interactive programs. Always in a sandbox, because nothing else confines such a program."""

    def session(
        self, argv: Sequence[str], *, workspace: WorkingFolder, prefix: Shown, limits: SandboxLimits, furnishing: Furnishing
    ) -> AbstractAsyncContextManager[SandboxSession]:
        """Start ``argv`` in ``workspace``, with pipes to it. When the context ends, none of its processes is left.

        Its ``door`` listens on 127.0.0.1:``DOOR_PORT`` inside, where nothing else can be reached. Raises the errors of
        ``run``.
        """
