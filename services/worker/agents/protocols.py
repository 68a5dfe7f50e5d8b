"""Protocols of agents, by the name in an entry of ``agents.json``; and the agent that is a plain program.

A plain program reads one prompt, edits files, and ends. Its exit code decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.agents.installation import InstalledAgent
from gatewright.agents.policy import ProtocolName
from gatewright.errors import AgentWireError, ConfigurationError, DeniedError
from gatewright.services.worker.agents.claude.stream import ClaudeStream
from gatewright.services.worker.agents.codex.app_server import CodexAppServer
from gatewright.services.worker.agents.codex.home import CATALOGUE, catalogue, start_of
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, AgentProtocol, EmitEvent, Launch, Wire
from gatewright.services.worker.agents.reporter import MAX_MESSAGE, AgentReporter

# A coding agent that is a plain program: it reads one prompt, edits files, and ends. Its exit code decides.
# The arguments of its entry place the prompt: ``@PROMPT@`` is the text, ``@PROMPT_FILE@`` a file with it. Without either it is
# the program's standard input. The program's output is recorded as its messages. It makes no requests: only the sandbox limits
# it.
PROMPT: Final = "@PROMPT@"
PROMPT_FILE: Final = "@PROMPT_FILE@"
#: In the program's home.
_ORDER: Final = "order.md"
_MARK: Final = "gatewright-exit"
#: Its words: the program's input, then the program. The last line is the shell's, after any output of the program.
_SCRIPT: Final = f'input=$1; shift; "$@" <"$input"; printf "\\n{_MARK} %d\\n" $?'
_EXIT: Final = re.compile(_MARK + r" ([0-9]{1,3})")  # noqa: TID251 - linear: anchored
#: Linux takes 131,072 bytes for one argument.
_LONGEST_ARGUMENT: Final = 120_000
#: Colours and cursor movements of a terminal (ECMA-48), which a program should not print to a pipe.
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # noqa: TID251 - linear: one class after another


@dataclass(frozen=True, slots=True)
class PlainProgram:
    """An ``AgentProtocol``. ``program`` starts it, with the arguments of its entry; ``version`` is that of its package."""

    program: tuple[str, ...]
    name: str
    version: str

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``. Raises DeniedError (``agent_not_permitted``) for an order that no argument holds."""
        prompt = order.prompt.encode("utf-8", "replace")
        in_argument = any(PROMPT in word for word in self.program)
        in_file = any(PROMPT_FILE in word for word in self.program)
        if in_argument and len(prompt) > _LONGEST_ARGUMENT:
            words = (
                f"an order of {len(prompt):,} bytes is too long for an argument: use {PROMPT_FILE} in the entry of {self.name}"
            )
            raise DeniedError(words, code="agent_not_permitted")
        place = f"@HOME@/{_ORDER}"
        argv = [word.replace(PROMPT_FILE, place).replace(PROMPT, prompt.decode()) for word in self.program]
        reads = "/dev/null" if in_argument or in_file else place
        return Launch(("/bin/sh", "-c", _SCRIPT, self.name, reads, *argv), {"NO_COLOR": "1", "TERM": "dumb"}, {_ORDER: prompt})

    async def converse(self, wire: Wire, order: AgentOrder, emit: EmitEvent) -> AgentEnd:
        """See ``AgentProtocol.converse``. There is no way to ask it to stop: the box is."""
        reporter = AgentReporter(emit, order.directory)
        reporter.started(self.name, self.version, "")
        paragraph, last = _Paragraph(reporter), ""
        while (line := await wire.receive_text()) is not None:
            paragraph.add(last)
            last = line
        found = _EXIT.fullmatch(last)
        if found is None:
            paragraph.add(last)
        paragraph.end()
        if found is None:
            raise AgentWireError(f"{self.name} was ended before it was done")
        if (code := int(found[1])) != 0:
            reporter.problem(f"{self.name} ended with exit code {code}")
        return AgentEnd("failed" if code else "completed", reporter.last)


class _Paragraph:
    """Puts lines together until one is empty, so that a long output is no event for each line."""

    def __init__(self, reporter: AgentReporter) -> None:
        self._reporter = reporter
        self._lines: list[str] = []
        self._characters = 0

    def add(self, line: str) -> None:
        plain = _CONTROL.sub("", line).rstrip()
        if plain and self._characters + len(plain) < MAX_MESSAGE:
            self._lines.append(plain)
            self._characters += len(plain) + 1
            self._reporter.text(lambda: "\n".join((*self._lines, "")))
            return
        self.end()
        if plain:
            self._reporter.message(plain)

    def end(self) -> None:
        self._reporter.message("\n".join(self._lines))
        self._lines.clear()
        self._characters = 0


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
