"""``agents.json``: the coding agents that contracts may name, how each is started, what is peculiar about it. No code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from gatewright.contracts.vocabulary import PROGRAM_NAME, TOOL_NAME
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.policy_files import PolicyFile, PolicyModel

#: The ways of talking to an agent.
ProtocolName = Literal["codex-app-server", "claude", "acp", "command"]
#: The stable version of the Agent Client Protocol, and drafts by the name with which a policy enables them.
PROTOCOL_VERSION = 1
DRAFTS: Mapping[int, str] = {2: "acp-2"}
Api = Literal["responses", "chat_completions", "messages", "gemini"]
_APIS: Mapping[ProtocolName, Api] = {"codex-app-server": "responses", "claude": "messages"}
_NAME = f"^{PROGRAM_NAME}$"
#: The server of the tools that every worker has.
_OWN_SERVER = "gatewright"
_VERSION = r"^[0-9]+(\.[0-9]+){0,3}$"
_FIELDS_OF_ACP = ("session_meta", "session_mode", "usage_at")
#: Variables that the sandbox sets: a policy cannot.
_OWN_VARIABLES = frozenset({"HOME", "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH"})


def server_of(tool: str) -> str:
    """Return the server of a tool that is named ``SERVER.TOOL``."""
    return tool.partition(".")[0]


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise ValueError("a path inside the installation, or inside the home, without ..")
    return path


def _file_name(name: str) -> str:
    if not name or "/" in name or name in {".", ".."}:
        raise ValueError(f"{name!r} is no name of a file")
    return name


Inside = Annotated[str, AfterValidator(_inside)]
FileName = Annotated[str, AfterValidator(_file_name)]
#: The prefix of a file's name.
_NameStart = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")]


class Versions(PolicyModel):
    """Versions that were tested: from ``since``, and before ``before``."""

    since: str = Field(pattern=_VERSION)
    before: str = Field(pattern=_VERSION)

    def hold(self, version: str) -> bool:
        """Return whether ``version`` (numbers and dots; a suffix is ignored) is in the range."""
        found = _numbers(version)
        return bool(found) and _numbers(self.since) <= found < _numbers(self.before)


class ProgramEntry(PolicyModel):
    """A program of an installation.

    ``program`` are places in the installation, of which the first existing one applies; the same for ``interpreter``, which
    runs the program if set. ``package`` is the ``package.json``, or the ``METADATA`` of a Python package, with the
    version; ``*`` in it stands for any name. ``variables`` are its environment.
    """

    name: str = Field(pattern=_NAME)
    program: tuple[Inside, ...] = Field(min_length=1)
    interpreter: tuple[Inside, ...] = ()
    arguments: tuple[str, ...] = ()
    package: Inside
    versions: Versions
    variables: dict[str, str] = Field(default_factory=dict)

    @field_validator("variables")
    @classmethod
    def _no_own_variables(cls, variables: dict[str, str]) -> dict[str, str]:
        if taken := sorted(_OWN_VARIABLES & set(variables)):
            raise ValueError(f"{taken[0]} is set by the sandbox")
        return variables


class ToolServer(ProgramEntry):
    """A server of the Model Context Protocol over standard input and output. ``tools``: the names that orders may ask for."""

    tools: tuple[Annotated[str, Field(pattern=f"^{TOOL_NAME}$")], ...] = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name == _OWN_SERVER:
            raise ValueError(f"the name {name} is taken")
        return name

    @property
    def full_names(self) -> tuple[str, ...]:
        """Return its tools as orders name them: ``SERVER.TOOL``."""
        return tuple(f"{self.name}.{tool}" for tool in self.tools)


class AgentEntry(ProgramEntry):
    """One agent.

    ``model`` is its default model; ``api`` is the API that it uses, if its protocol leaves that open.
    ``variables`` and ``files`` (of its home) may contain ``@HOME@``, ``@MODEL@`` and ``@BASE_URL@``. ``model_list``: the
    words by which Codex lists the models that it knows; another model gets our entry, and with it tools for writing.
    ``session_meta``, ``session_mode`` and ``usage_at`` are for the Agent Client Protocol. ``standing_approval``: commands that
    need approval by the contract (``shell: on-request``) are approved, because they stay in the sandbox.

    ``protocol_version`` is that of the Agent Client Protocol; ``older_protocol``: whether an agent that only supports an
    older one is used with it. ``rounds``: whether a further round of fixing resumes the session of the previous round, whose
    files are at the places ``session_files`` of its home, or begins a fresh one. ``session_renames``: prefixes of such
    files' names, and their replacements when the files are restored, for an agent that would overwrite its own. ``masked``:
    names of files hidden from this agent, in addition to those hidden from all agents. ``calls_tools``: whether it calls tools
    of servers; a program that is no session never does.
    """

    protocol: ProtocolName
    api: Api | None = None
    model: str | None = None
    files: dict[Inside, str] = Field(default_factory=dict)
    model_list: tuple[str, ...] = ()
    session_meta: dict[str, Any] | None = None
    session_mode: str | None = None
    usage_at: tuple[str, ...] = ()
    standing_approval: bool = False
    protocol_version: int = PROTOCOL_VERSION
    older_protocol: Literal["refuse", "accept"] = "refuse"
    rounds: Literal["fresh", "resume"] = "fresh"
    session_files: tuple[Inside, ...] = ()
    session_renames: dict[_NameStart, _NameStart] = Field(default_factory=dict, max_length=8)
    masked: tuple[FileName, ...] = ()
    calls_tools: bool = True

    @property
    def kept_places(self) -> tuple[str, ...]:
        """Return the places in its home that a further round needs; none if each round is a fresh session."""
        return self.session_files if self.rounds == "resume" else ()

    @property
    def asks_by(self) -> Api | None:
        """The API by which it asks its model; None where that is not known."""
        return self.api or _APIS.get(self.protocol)

    @model_validator(mode="after")
    def _has_its_fields(self) -> AgentEntry:
        """Refuse a field that the protocol does not read, and an agent without a known API."""
        for name in _FIELDS_OF_ACP if self.protocol != "acp" else ():
            if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                raise ValueError(f"{name} is for the protocol acp alone")
        if self.protocol == "command":
            if self.api is None:
                raise ValueError("the protocol command needs api, by which the program asks its model")
            if self.rounds != "fresh" or self.model_list:
                raise ValueError("a program that is no session begins each round anew, and has no catalogue")
        return self

    @model_validator(mode="after")
    def _can_resume(self) -> AgentEntry:
        if self.rounds == "resume" and not self.session_files:
            raise ValueError("rounds: resume needs session_files, the places of its home that hold a session")
        return self


class AgentsPolicy(PolicyModel):
    """The agents policy. ``masked`` are names of files and folders of the repository hidden from agents: their configuration.

    ``agents``: a contract without an agent gets the first that a worker has and that may make its change. ``drafts`` are
    unstable protocol versions that its agents may still be used with.

    ``conventions``: whether agents and models receive the files in which a repository describes how to work in it.
    ``history``: how many of the last commits git shows an agent; 0 for no history. ``tool_servers``: servers whose tools
    orders may give to agents.
    """

    version: Literal["1"]
    masked: tuple[FileName, ...]
    agents: tuple[AgentEntry, ...]
    drafts: tuple[Literal["acp-2"], ...] = ()
    conventions: Literal["given", "withheld"] = "withheld"
    history: int = Field(default=0, ge=0, le=1_000)
    tool_servers: tuple[ToolServer, ...] = ()

    @model_validator(mode="after")
    def _check_unique_names(self) -> AgentsPolicy:
        for kind, entries in (("agent", self.agents), ("tool server", self.tool_servers)):
            for name, count in Counter(entry.name for entry in entries).items():
                if count > 1:
                    raise ValueError(f"the {kind} {name} is listed {count} times")
        return self

    @property
    def tools(self) -> frozenset[str]:
        """Return every tool of the servers as orders name it."""
        return frozenset(name for server in self.tool_servers for name in server.full_names)

    def masked_for(self, entry: AgentEntry) -> tuple[str, ...]:
        """The names of files and folders that the agent of ``entry`` does not see."""
        return (*self.masked, *entry.masked)

    def agent(self, name: str) -> AgentEntry:
        """Raises MalformedError (``agent_unknown``)."""
        for entry in self.agents:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in self.agents) or "none"
        raise MalformedError(f"{AGENTS_FILE} has no agent {name[:64]!r}; it lists {known}", code="agent_unknown")


AGENTS_FILE = PolicyFile("agents.json", AgentsPolicy)


def load_agents(folder: Path) -> AgentsPolicy:
    """Read ``agents.json`` of the operator's folder.

    Raises ConfigurationError naming the file and the place; for a version of a protocol that is none here, with the code
    ``protocol_version_unknown``.
    """
    policy = AGENTS_FILE.load(folder).policy
    for entry in policy.agents:
        if fault := _version_fault(policy, entry):
            raise ConfigurationError(f"{AGENTS_FILE.path(folder)}: {entry.name} {fault}", code="protocol_version_unknown")
    return policy


def _version_fault(policy: AgentsPolicy, entry: AgentEntry) -> str:
    wanted = f"wants version {entry.protocol_version} of its protocol"
    if entry.protocol_version == PROTOCOL_VERSION:
        return ""
    draft = DRAFTS.get(entry.protocol_version) if entry.protocol == "acp" else None
    if draft is None:
        return f"{wanted}; there is {PROTOCOL_VERSION}"
    return "" if draft in policy.drafts else f'{wanted}, which is a draft: "drafts": ["{draft}"] opens it'


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split(".")[:4]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
    return tuple(numbers)
