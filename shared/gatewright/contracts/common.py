"""Building blocks that several documents share. No document of its own lives here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

#: Python's ``$`` also matches before a final newline, ECMA's does not; the look-ahead makes both dialects agree.
END = r"(?!\n)$"

NonEmpty = Annotated[str, Meta(min_length=1)]
Sha256 = Annotated[str, Meta(pattern=rf"^[0-9a-fA-F]{{64}}{END}")]
ObjectId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{40}}([0-9a-f]{{24}})?{END}")]
RunId = Annotated[str, Meta(min_length=8, max_length=64, pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]*{END}")]
#: Ids of documents may come from other systems; they are never used as file names or subjects.
DocumentId = Annotated[str, Meta(min_length=8)]
Timestamp = NonEmpty
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]

RoleName = Literal[
    "PM",
    "TECH_LEAD",
    "WORKER",
    "REVIEWER",
    "TEST_RUNNER",
    "SEARCHER",
    "RESEARCHER",
    "UI_UX",
    "FRONTEND",
    "BACKEND",
    "AI",
    "SECURITY",
    "INFRA",
    "TEST",
    "OPS",
]
PolicyPack = Literal["low", "medium", "high"]
Filesystem = Literal["read-only", "workspace-write"]
Shell = Literal["deny", "untrusted", "on-request", "never"]
Network = Literal["deny", "on-request", "allow"]
LandingMode = Literal["branch", "target", "none"]


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Base of everything that crosses the bus.

    Optional fields are left out when they hold their default; ``null`` is accepted for them and means the same.
    """


class Agent(Document):
    role: RoleName
    agent_id: NonEmpty
    codex_thread_id: str | None = None


class Artifact(Document):
    """A named blob. ``uri`` is ``artifact:sha256:<hex>`` (object store) or an RFC 2397 ``data:`` URI."""

    name: NonEmpty
    uri: NonEmpty
    sha256: Sha256


class Repository(Document):
    """Where the change belongs. ``url`` is whatever git can fetch; ``target_ref`` the full name of the ref to land on."""

    url: NonEmpty
    target_ref: str | None = None
    landing: LandingMode = "branch"


class Executor(Document):
    """How the worker makes the change.

    ``command``: ``commands`` are argv strings, one per attempt, ``{paths}`` stands for the shard's paths.
    ``patch`` and ``reply``: ``artifacts`` name entries of ``inputs.artifacts``, one per attempt.
    """

    kind: Literal["command", "patch", "reply"]
    commands: tuple[NonEmpty, ...] = ()
    artifacts: tuple[NonEmpty, ...] = ()


class Sharding(Document):
    """Into how many disjoint parts the tech lead may split the work; 1 passes it through."""

    count: Annotated[int, Meta(ge=1, le=64)] = 1


class Environment(Document):
    """A prefix (a virtual environment, say) that commands see read-only; the role's settings must list it."""

    prefix: NonEmpty


class Scope(Document):
    """What is allowed beyond plain edits inside ``allowed_paths``."""

    allow_dependency_change: bool = False
    allow_protected_paths: tuple[NonEmpty, ...] = ()
    allow_binary: bool = False
    destructive: tuple[NonEmpty, ...] = ()


class Budget(Document):
    wall_sec: Annotated[float, Meta(gt=0)] | None = None
    tokens: Annotated[int, Meta(ge=1)] | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    iterations: Annotated[int, Meta(ge=1)] | None = None


class AcceptanceTest(Document):
    name: NonEmpty
    cmd: NonEmpty
    must_pass: bool


class ToolPermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network
    mcp_tools: tuple[str, ...]


class TimeoutRetry(Document):
    timeout_sec: Annotated[float, Meta(ge=1)]
    max_retries: Annotated[int, Meta(ge=0, le=10)]
    retry_backoff_sec: Annotated[float, Meta(ge=0)]


RequirementId = Annotated[str, Meta(pattern=rf"^[A-Z][A-Z0-9]*-[A-Z][A-Z0-9]*-[0-9]{{3,}}{END}")]
