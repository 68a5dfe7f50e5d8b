"""An agent of the Agent Client Protocol as the worker starts it and talks to it; which one it is, is data."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatewright.services.worker.agents.acp.conversation import Conversation
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, EmitEvent, Launch, Wire


@dataclass(frozen=True, slots=True)
class AcpAgent:
    """An ``AgentProtocol``. Its variables and files are its entry's alone."""

    argv: tuple[str, ...]
    name: str
    rules: SessionRules = field(default_factory=SessionRules)

    def launch(self, order: AgentOrder) -> Launch:  # noqa: ARG002 - the port is for protocols that need it
        """See ``AgentProtocol.launch``."""
        return Launch(self.argv)

    async def converse(self, wire: Wire, order: AgentOrder, emit: EmitEvent) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        return await Conversation(wire, order, emit, self.name, self.rules).hold()
