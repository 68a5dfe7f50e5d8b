"""The sandbox of an agent: a new home, the workspace, and one socket, which leads to the model gateway."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from gatewright.sandbox import DOOR_PORT, HOME_INSIDE, Furnishing, SandboxLimits, SandboxSession, TalkingSandbox, WorkingFolder
from gatewright.sandbox.environments import Shown
from gatewright.services.worker.agents.port import Launch
from gatewright.services.worker.agents.wire import SILENCE_SECONDS, JsonLines

#: Where the agent finds the model gateway.
BASE_URL: Final = f"http://127.0.0.1:{DOOR_PORT}"
_HOME: Final = "@HOME@"


class Gateway(Protocol):
    """Server behind the sandbox's socket."""

    def serving(self, listening: socket.socket) -> AbstractAsyncContextManager[Any]:
        """Answer what connects to ``listening`` while the context is open."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works. ``shown`` are the folders of its installation, ``prefix`` the environment of its commands, ``kept``
    the folders of its home, by path below it, that outlive it."""

    workspace: WorkingFolder
    prefix: Shown
    limits: SandboxLimits
    shown: tuple[Path, ...] = ()
    kept: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Box:
    """A running agent: ``wire`` to talk to it, ``session`` to ask how it ended."""

    wire: JsonLines
    session: SandboxSession


@asynccontextmanager
async def open_box(
    sandbox: TalkingSandbox, place: Place, launch: Launch, gateway: Gateway, *, silence_seconds: float = SILENCE_SECONDS
) -> AsyncIterator[Box]:
    """The agent of ``launch``, running. When the context is left it is dead with all that it started; the workspace stays.

    Raises SandboxError, ConfigurationError for an installation that must not be shown, HostError.
    """
    argv = tuple(_at_home(word) for word in launch.argv)
    furnishing = Furnishing(
        shown=place.shown,
        variables={name: _at_home(value) for name, value in launch.variables.items()},
        files={name: data.replace(_HOME.encode(), HOME_INSIDE.encode()) for name, data in launch.files.items()},
        kept=place.kept,
    )
    session = sandbox.session(argv, workspace=place.workspace, prefix=place.prefix, limits=place.limits, furnishing=furnishing)
    async with session as held, gateway.serving(held.door):
        yield Box(JsonLines(held, silence_seconds=silence_seconds), held)


def _at_home(text: str) -> str:
    return text.replace(_HOME, HOME_INSIDE)
