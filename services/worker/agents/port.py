"""What one way of talking to a coding agent implements, and what it is given. Types only.

An agent's permissions, modes, stop reasons, exit codes, diffs and figures are claims: they are recorded and shown, and nothing
is decided by them. What it did is read from its workspace by the executor, and what it used is counted by the model gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gatewright.agents.policy import server_of
from gatewright.contracts.vocabulary import Document
from gatewright.models.apis.endpoints import TOOLS_PATH
from gatewright.tasks.questions import Leave

#: How a conversation ended, in our words: ``declined`` when the agent gave up because something was not allowed.
HowEnded = Literal["completed", "failed", "declined", "interrupted"]
#: What an agent asks leave for.
Asked = Literal["command", "edit", "network", "other"]
Answered = Literal["allow", "reject", "cancel"]


class AgentStarted(Document, tag="started", tag_field="event"):
    """A session stands. ``session`` is the agent's own id of it, with which it may be resumed."""

    agent: str
    version: str
    session: str


class AgentText(Document, tag="text", tag_field="event"):
    """An unfinished message of the agent so far. For observers: it is not recorded."""

    text: str


class AgentMessage(Document, tag="message", tag_field="event"):
    """Words of the agent."""

    text: str


class AgentCommand(Document, tag="command", tag_field="event"):
    """A command that the agent reports; ``exit_code`` once it reports the end."""

    command: str
    exit_code: int | None = None


#: How a call of a tool ended; ``refused``: the contract does not name it.
ToolOutcome = Literal["answered", "failed", "refused"]


class AgentToolCall(Document, tag="tool_call", tag_field="event"):
    """A call of a tool, seen by the worker. ``tool``: SERVER.TOOL."""

    tool: str
    arguments: str
    outcome: ToolOutcome
    answer_sha256: str
    answer_bytes: int


class AgentFileChange(Document, tag="file_change", tag_field="event"):
    """Files that the agent reports as written."""

    paths: tuple[str, ...]


class AgentPermission(Document, tag="permission", tag_field="event"):
    """A question of the agent, and the answer it was given. ``offered`` are the kinds of its options.

    ``by``: the contract answers by itself; where it wants an approval, the person who made the run (``person``), or why none.
    """

    asked: Asked
    subject: str
    answer: Answered
    offered: tuple[str, ...] = ()
    by: Literal["contract", "person", "silence", "too_many", "too_long", "secret", "unreachable"] = "contract"
    person: str = ""


class AgentUsage(Document, tag="usage", tag_field="event"):
    """Tokens of the conversation so far, as the agent counts them; the gateway's count is the one that is used."""

    input_tokens: int
    output_tokens: int


class AgentProblem(Document, tag="problem", tag_field="event"):
    """What the agent, or the wire to it, complained about."""

    message: str


AgentEvent = (
    AgentStarted
    | AgentText
    | AgentMessage
    | AgentCommand
    | AgentToolCall
    | AgentFileChange
    | AgentPermission
    | AgentUsage
    | AgentProblem
)
EmitEvent = Callable[[AgentEvent], None]
#: Asked when a turn is over and was completed: the next words to the agent in the same session, None when it may go.
FollowUp = Callable[[], Awaitable[str | None]]
#: Given what is to be run, in the agent's words.
AskPerson = Callable[[str], Awaitable[Leave]]


async def no_follow_up() -> str | None:
    """One turn is all."""
    return None


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """What an agent is to do. ``directory`` is the workspace as the agent sees it, ``base_url`` the gateway's address there.

    ``model`` is the name that the agent asks the gateway for. ``shell`` is the contract's permission (specification 6.1.2);
    ``resume`` an earlier session's id. ``ask`` puts a command that wants an approval to a person, None: there is none.
    ``standing_approval``: the operator approves beforehand the commands that a contract
    wants approved (``on-request``), as they stay in the box. A protocol that knows no second turn does not ask ``follow_up``.
    ``written``: a further round may go on with the session, so the agent is given time to write it down; returns when it has.
    ``recorded_catalogue``: Codex gets our entry for every model, as in runs that were recorded with version 1 of the order.
    ``tools``: tools of servers that it may call, as SERVER.TOOL.
    """

    prompt: str
    directory: str
    model: str
    base_url: str
    shell: Literal["deny", "untrusted", "on-request", "never"] = "never"
    read_only: bool = False
    resume: str | None = None
    standing_approval: bool = False
    follow_up: FollowUp = no_follow_up
    ask: AskPerson | None = None
    written: Callable[[], Awaitable[None]] | None = None
    recorded_catalogue: bool = False
    tools: tuple[str, ...] = ()

    @property
    def tool_addresses(self) -> dict[str, str]:
        """Return the address of each tool server by name, as the agent sees it."""
        return {server_of(tool): f"{self.base_url}{TOOLS_PATH}{server_of(tool)}" for tool in self.tools}


@dataclass(frozen=True, slots=True)
class Launch:
    """How the agent's program is started. ``files`` are written into its fresh home first, by path below it.

    ``@HOME@`` in the value of a variable, in a word of ``argv`` or in a file stands for that home inside the box.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """End of a conversation, as reported by the agent. ``text`` is its last message, ``session`` what could be resumed."""

    how: HowEnded
    text: str = ""
    session: str | None = None


class Wire(Protocol):
    """The agent's standard input and output, as JSON objects or as text, one a line; bounded in every direction."""

    async def receive(self) -> dict[str, object] | None:
        """The next object; None at the end. Raises AgentWireError for what is none, and for too much of it."""

    async def receive_text(self) -> str | None:
        """The next line as text, without its end; None at the end. Raises AgentWireError for too much of it."""

    async def send(self, message: Mapping[str, object]) -> None:
        """Raises AgentWireError when the agent no longer listens."""

    async def finish(self) -> None:
        """Close the agent's standard input."""


class AgentProtocol(Protocol):
    """One way of talking to coding agents: Codex's app server, Claude's stream of JSON, the Agent Client Protocol."""

    def launch(self, order: AgentOrder) -> Launch:
        """How the program is started for ``order``."""

    async def converse(self, wire: Wire, order: AgentOrder, emit: EmitEvent) -> AgentEnd:
        """Give the order, answer its questions by the kind of their options, and follow it to its end.

        When cancelled: asks the agent to stop, if that can be done at once, and raises. Raises AgentWireError.
        """
