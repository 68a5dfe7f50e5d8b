"""An agent of the Agent Client Protocol as the worker starts it and talks to it; which one it is, is data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.services.worker.agents.acp.conversation import Conversation
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, Launch, Tell, Wire


@dataclass(frozen=True, slots=True)
class AcpAgent:
    """An ``AgentProtocol``. ``variables`` and ``files`` (by path below its home) are its environment.

    In every word of the three, ``@BASE_URL@`` stands for the model gateway, ``@MODEL@`` for the model, ``@WORKSPACE@`` for the
    folder it works in; ``@HOME@`` is left to the box.
    """

    name: str
    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    rules: SessionRules = field(default_factory=SessionRules)

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``."""
        return Launch(
            tuple(_filled(word, order) for word in self.argv),
            {name: _filled(value, order) for name, value in self.variables.items()},
            {path: _filled(text, order).encode() for path, text in self.files.items()},
        )

    async def converse(self, wire: Wire, order: AgentOrder, tell: Tell) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        return await Conversation(wire, order, tell, self.name, self.rules).hold()


def _filled(text: str, order: AgentOrder) -> str:
    places = {"@BASE_URL@": order.base_url, "@MODEL@": order.model, "@WORKSPACE@": order.directory}
    for place, value in places.items():
        text = text.replace(place, value)
    return text
