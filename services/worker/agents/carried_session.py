"""The session of an agent across rounds: what is resumed, where its files are stored meanwhile, what is kept of it.

A session that cannot be resumed or kept is reported as a problem in the evidence; the agent then gets a new session, and the
prompt contains everything that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gatewright.agents.installation import InstalledAgent
from gatewright.artifacts import ArtifactPort
from gatewright.contracts import TaskContract
from gatewright.errors import ArtifactError, MalformedError
from gatewright.sandbox.account import sandbox_account
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.agents.port import AgentProblem, EmitEvent
from gatewright.services.worker.agents.session_state import MOST_FILES, SessionNotKeptError, SessionState, lay_out, pack, unpack
from gatewright.tasks.earlier_round import left_by

#: Seconds without a change after which an agent has written its session down, and that it is waited for at most.
_STILL: Final = 0.5
_MOST_WRITING: Final = 3.0


class CarriedSession:
    """Session of one task of ``agent``. Problems with it are reported as events."""

    def __init__(self, agent: InstalledAgent, scanner: SecretScanner, emit: EmitEvent) -> None:
        self._agent = agent
        self._scanner = scanner
        self._emit = emit
        self._state: SessionState | None = None
        self._folders: Mapping[str, Path] = {}
        self._tries = 0

    @property
    def resumed(self) -> str | None:
        """The id of the session that is to be gone on with."""
        return self._state.session if self._state is not None else None

    async def find(self, contract: TaskContract, artifacts: ArtifactPort) -> None:
        """Look for the session that the round before left. Raises BusError."""
        left = left_by(contract, "session") if self._agent.entry.kept_places else None
        if left is None:
            if self._agent.entry.kept_places and contract.attempt > 1:
                self.give_up("the round before left none")
            return
        try:
            self._state = await asyncio.to_thread(unpack, await artifacts.get(left.uri), self._agent)
        except (ArtifactError, MalformedError) as error:
            self.give_up(error.message)

    def give_up(self, why: str) -> None:
        """The session cannot be resumed: a fresh one begins."""
        self._state = None
        self._emit(AgentProblem(message=f"the session of the round before cannot be resumed, a fresh one begins: {why[:300]}"))

    async def folders(self, below: Path) -> Mapping[str, Path]:
        """New folders below ``below`` for the places of the home that are kept, with the files of the session in them."""
        self._tries += 1
        places = enumerate(self._agent.entry.kept_places)
        self._folders = {place: below / f"session-{self._tries}-{number}" for number, place in places}
        renames = self._agent.entry.session_renames
        await asyncio.to_thread(lay_out, self._state, self._folders, sandbox_account(), renames)
        return self._folders

    async def written(self) -> None:
        """Wait until the agent has finished writing its session files, for at most three seconds.

        Some agents write the last messages long after the turn, and lose them when they are ended.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_WRITING):
                before, now = None, await asyncio.to_thread(self._marks)
                while before != now:
                    await asyncio.sleep(_STILL)
                    before, now = now, await asyncio.to_thread(self._marks)

    def _marks(self) -> frozenset[tuple[str, int, int]]:
        """The files in the folders, no more than a session may have, each with its size and the time of its last change."""
        found = (Path(top, name) for each in self._folders.values() for top, _, names in os.walk(each) for name in names)
        marks = set()
        for path in itertools.islice(found, MOST_FILES):
            with contextlib.suppress(OSError):
                status = path.lstat()
                marks.add((str(path), status.st_size, status.st_mtime_ns))
        return frozenset(marks)

    async def kept(self, session: str) -> bytes | None:
        """The state of ``session`` as an artifact, once the agent is dead; None where there is none to keep."""
        if not self._folders:
            return None
        try:
            return await asyncio.to_thread(pack, self._agent, session, self._folders, self._scanner)
        except (SessionNotKeptError, OSError) as error:
            self._emit(AgentProblem(message=f"the session is not kept for a further round: {str(error)[:300]}"))
            return None
