"""One trial of the probe: a new box, a new folder, one conversation with the scripted model, and what can be seen of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from gatewright.contracts.vocabulary import Shell
from gatewright.errors import AgentWireError
from gatewright.sandbox import SandboxLimits, TalkingSandbox
from gatewright.sandbox.account import SandboxAccount
from gatewright.services.worker.agents.box import BASE_URL, Box, Place, open_box
from gatewright.services.worker.agents.port import AgentEnd, AgentEvent, AgentOrder, AgentProtocol, Launch
from gatewright.services.worker.agents.probe.answers import Changed, ChangedAnswers
from gatewright.services.worker.agents.probe.script import Turn
from gatewright.services.worker.agents.probe.scripted_model import ReceivedRequest, ScriptedModel
from gatewright.workspace.removal import remove_tree

#: Model name in the agent's configuration.
MODEL: Final = "probe-model"
INSIDE: Final = "/workspace"
_START_SECONDS: Final = 150.0
#: How long a process that was killed may take to be gone.
_DYING_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_MOST_FILES: Final = 200
_MOST_BYTES: Final = 1 << 16


class Door(Protocol):
    """Server of the sandbox's socket, in front of a scripted model."""

    def serving(self, listening: socket.socket) -> AbstractAsyncContextManager[Any]: ...


class Closed:
    """A server that ends every connection at once."""

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """Refuse what connects to ``listening``."""
        listening.close()
        yield


@dataclass(frozen=True, slots=True)
class Trial:
    """``allowed``: what the agent asks leave for is allowed, else refused. ``files`` lie in its folder from the beginning.

    ``cancel`` ends the conversation once the process that the command ``word`` names runs, or once a question is open.
    ``linger`` is how many seconds the box stays open after the end; ``reachable``: whether the model can be had at all.
    After ``seconds`` the box is ended. ``shell`` is another permission than the usual one, under which nothing is allowed.
    """

    turns: tuple[Turn, ...]
    allowed: bool = True
    files: Mapping[str, str] = field(default_factory=dict)
    changed: Changed | None = None
    cancel: Literal["running", "asked"] | None = None
    word: str = ""
    linger: float = 0.0
    reachable: bool = True
    seconds: float = 200.0
    shell: Shell | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Result of a trial. ``end`` is None for one that did not end by itself; ``fault`` has the reason.

    ``files`` are new or changed files, with the beginning of their content. ``met``: the thing to cancel occurred, or there was
    nothing to cancel. ``late``: the trial timed out. ``survivors`` are the processes of the command that still ran after the
    cancelling, ``left`` those after the sandbox was closed.
    """

    end: AgentEnd | None
    fault: str
    events: tuple[AgentEvent, ...]
    seen: tuple[ReceivedRequest, ...]
    files: Mapping[str, bytes]
    seconds: float
    met: bool = True
    survivors: int = 0
    left: int = 0
    complaints: str = ""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Bench:
    """Environment of trials.

    ``shown`` is the agent's installation, ``launch`` starts it, ``masked`` are the names that tasks hide from it; the scripted
    model is behind a server.
    """

    sandbox: TalkingSandbox
    account: SandboxAccount
    agent: AgentProtocol
    shown: tuple[Path, ...]
    limits: SandboxLimits
    launch: Callable[[AgentOrder], Launch]
    masked: tuple[str, ...] = ()
    door: Callable[[ScriptedModel], Door] = lambda model: model

    async def observe(self, trial: Trial) -> Observed:
        """Make one trial. Raises SandboxError, ConfigurationError, HostError."""
        with tempfile.TemporaryDirectory(prefix="gw-probe-") as above:
            folder = _Folder(Path(above) / "workspace")
            try:
                await asyncio.to_thread(folder.write, trial.files, self.account)
                observed = await self._converse(trial, folder)
                return await asyncio.to_thread(_with_files, observed, folder, trial)
            finally:
                await asyncio.to_thread(remove_tree, folder.path)

    async def _converse(self, trial: Trial, folder: _Folder) -> Observed:
        order = AgentOrder(
            prompt="Do the task.",
            directory=INSIDE,
            model=MODEL,
            base_url=BASE_URL,
            shell=trial.shell or ("on-request" if trial.allowed else "never"),
            read_only=not trial.allowed,
            standing_approval=trial.allowed,
        )
        model, events = ScriptedModel(trial.turns), list[AgentEvent]()
        door = self.door(model) if trial.reachable else Closed()
        place = Place(folder, None, replace(self.limits, wall_seconds=trial.seconds), self.shown)
        async with open_box(self.sandbox, place, self.launch(order), door) as box:
            wire = ChangedAnswers(box.wire, trial.changed)
            talk = asyncio.ensure_future(self.agent.converse(wire, order, events.append))
            late = False
            try:
                met = trial.cancel is None or await _wait_for(trial, talk, wire)
                late = not met and not talk.done()
                end, fault, seconds = await _follow_talk(talk, cancel=trial.cancel is not None)
                await asyncio.sleep(trial.linger)
                survivors = await _survivors(trial.word)
            finally:
                talk.cancel()
                await asyncio.wait({talk})
        left, late = _count(trial.word), late or box.session.stopped == "time"
        return Observed(end, fault, tuple(events), tuple(model.seen), {}, seconds, met, survivors, left, _last(box), late)


async def _follow_talk(talk: asyncio.Future[AgentEnd], *, cancel: bool) -> tuple[AgentEnd | None, str, float]:
    """How the conversation ended, why it did not, and the seconds since it was cancelled."""
    begun = time.monotonic()
    try:
        if cancel:
            talk.cancel()
        return await talk, "", time.monotonic() - begun
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return None, "cancelled", time.monotonic() - begun
    except AgentWireError as error:
        return None, error.message, time.monotonic() - begun


async def _wait_for(trial: Trial, talk: asyncio.Future[AgentEnd], wire: ChangedAnswers) -> bool:
    """Whether there is what the trial wants to cancel; one that ends before, or takes too long, is not waited for."""
    deadline = time.monotonic() + _START_SECONDS
    while not talk.done() and time.monotonic() < deadline:
        if wire.asked.is_set() if trial.cancel == "asked" else _count(trial.word):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def _survivors(word: str) -> int:
    """The processes with ``word`` that do not end: one that was killed a moment ago may not be gone yet."""
    for _ in range(round(_DYING_SECONDS / _LOOK_SECONDS)):
        if not _count(word):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return _count(word)


def _count(word: str) -> int:
    """The processes of this host with ``word`` on their command line; those of a box can be seen from outside."""
    if not word:
        return 0
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The shell that was given the word is one, and the command itself is another.
                found += word.encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def _last(box: Box) -> str:
    lines = box.session.complaints[-2_000:].decode("utf-8", "replace").splitlines()
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


@dataclass(frozen=True, slots=True)
class _Folder:
    """A ``WorkingFolder`` that is nothing but a folder of the host."""

    path: Path
    path_inside: str = INSIDE

    @property
    def mounts(self) -> tuple[str, ...]:
        return ("--bind", str(self.path), self.path_inside)

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def scratch(self) -> Path:
        return self.path

    def has_room(self, place: str) -> bool:
        """Nothing is shown in the folder of a trial."""
        del place
        return False

    def write(self, files: Mapping[str, str], account: SandboxAccount) -> None:
        self.path.mkdir(mode=0o755)
        for name, text in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        if account.switched:
            for place in (self.path, *self.path.rglob("*")):
                shutil.chown(place, account.uid, account.gid)


def _with_files(observed: Observed, folder: _Folder, trial: Trial) -> Observed:
    found = _files_of(folder.path)
    new = {name: data for name, data in found.items() if trial.files.get(name, "").encode() != data or name not in trial.files}
    return replace(observed, files=new)


def _files_of(root: Path) -> dict[str, bytes]:
    """The files below ``root``, and the beginning of each; no link is followed."""
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(root):
        for name in names[:_MOST_FILES]:
            path = Path(folder) / name
            if len(found) >= _MOST_FILES:
                return found
            found[str(path.relative_to(root))] = _beginning(path)
    return found


def _beginning(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(file, _MOST_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
