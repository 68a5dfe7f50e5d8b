"""The session of an agent from one round to the next: what is resumed, where its files lie meanwhile, what is kept of it.

What cannot be resumed or kept is told as a problem, which stands in the evidence; the agent then has a fresh session, and the
order says all that it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from gatewright.agents.installation import InstalledAgent
from gatewright.artifacts import ArtifactPort
from gatewright.contracts import TaskContract
from gatewright.errors import ArtifactError, MalformedError
from gatewright.sandbox.account import sandbox_account
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.agents.port import AgentProblem, Tell
from gatewright.services.worker.agents.session_state import SessionNotKeptError, SessionState, lay_out, pack, unpack
from gatewright.tasks.earlier_round import left_by


class CarriedSession:
    """Of one task of ``agent``. ``tell`` is told why a session could not be carried on."""

    def __init__(self, agent: InstalledAgent, scanner: SecretScanner, tell: Tell) -> None:
        self._agent = agent
        self._scanner = scanner
        self._tell = tell
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
        self._tell(AgentProblem(message=f"the session of the round before cannot be resumed, a fresh one begins: {why[:300]}"))

    async def folders(self, below: Path) -> Mapping[str, Path]:
        """New folders below ``below`` for the places of the home that are kept, with the files of the session in them."""
        self._tries += 1
        places = enumerate(self._agent.entry.kept_places)
        self._folders = {place: below / f"session-{self._tries}-{number}" for number, place in places}
        await asyncio.to_thread(lay_out, self._state, self._folders, sandbox_account())
        return self._folders

    async def kept(self, session: str) -> bytes | None:
        """The state of ``session`` as an artifact, once the agent is dead; None where there is none to keep."""
        if not self._folders:
            return None
        try:
            return await asyncio.to_thread(pack, self._agent, session, self._folders, self._scanner)
        except (SessionNotKeptError, OSError) as error:
            self._tell(AgentProblem(message=f"the session is not kept for a further round: {str(error)[:300]}"))
            return None
