"""Protocols of agents, by the name in an entry of ``agents.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gatewright.agents.installation import InstalledAgent
from gatewright.agents.policy import ProtocolName
from gatewright.errors import ConfigurationError
from gatewright.services.worker.agents.claude.stream import ClaudeStream
from gatewright.services.worker.agents.codex.app_server import CodexAppServer
from gatewright.services.worker.agents.codex.home import CATALOGUE, catalogue, start_of
from gatewright.services.worker.agents.port import AgentOrder, AgentProtocol, Launch
from gatewright.services.worker.agents.program import PlainProgram


def _acp(agent: InstalledAgent) -> AgentProtocol:
    # The types of the protocol take a second to load, and most workers talk to no agent that speaks it.
    from gatewright.services.worker.agents.acp.protocol import AcpAgent
    from gatewright.services.worker.agents.acp.rules import SessionRules

    entry = agent.entry
    rules = SessionRules(
        meta=entry.session_meta,
        mode=entry.session_mode,
        usage_at=entry.usage_at,
        version=entry.protocol_version,
        accepts_older=entry.older_protocol == "accept",
    )
    return AcpAgent(agent.argv, entry.name, rules)


#: A further protocol is a further entry.
PROTOCOLS: Final[Mapping[ProtocolName, Callable[[InstalledAgent], AgentProtocol]]] = {
    "codex-app-server": lambda agent: CodexAppServer(agent.argv, agent.entry.name),
    "acp": _acp,
    "command": lambda agent: PlainProgram(agent.argv, agent.entry.name, agent.version),
    "claude": lambda agent: ClaudeStream(agent.argv, agent.entry.name),
}


def protocol_of(agent: InstalledAgent) -> AgentProtocol:
    """The protocol that ``agent`` speaks. Raises ConfigurationError for one that this worker does not."""
    if (make := PROTOCOLS.get(agent.entry.protocol)) is None:
        raise ConfigurationError(f"this worker does not speak {agent.entry.protocol}, which {agent.entry.name} needs")
    return make(agent)


def launch_of(agent: InstalledAgent, protocol: AgentProtocol, order: AgentOrder) -> Launch:
    """Return how the agent is started: by its protocol, and by additions of its entry."""
    launch, entry = protocol.launch(order), agent.entry

    def filled(text: str) -> str:
        return text.replace("@MODEL@", order.model).replace("@BASE_URL@", order.base_url)

    variables = {name: filled(value) for name, value in entry.variables.items()}
    files = {name: filled(text).encode() for name, text in entry.files.items()}
    argv = tuple(filled(word) for word in launch.argv)
    if entry.model_list:
        files |= {CATALOGUE: catalogue(order.model).encode()}
        argv = start_of(argv, (*agent.argv, *entry.model_list), order)
    return Launch(argv, {**launch.variables, **variables}, {**launch.files, **files})
