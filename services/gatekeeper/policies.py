"""The policy files: what is allowed. Read once at start, from the operator's folder, never from a target repository.

A missing, unreadable or invalid file raises ConfigurationError, and the gatekeeper does not start.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import pathspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gatewright.contracts import AgentRegistry, codec
from gatewright.contracts.records import RegisteredAgent
from gatewright.errors import ConfigurationError, MalformedError

Use = Literal["acceptance", "executor"]
CommandClass = Literal["read-only", "local-write", "network", "dependency-install", "destructive", "credential-sensitive"]
ProtectedClass = Literal["sacred", "protected", "dependencies", "migrations"]


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=_Policy)


class CommandRule(_Policy):
    """An argv prefix that may run. ``script`` asks for a script of the workspace as the first word that is no option."""

    prefix: tuple[str, ...] = Field(min_length=1)
    uses: tuple[Use, ...] = Field(min_length=1)
    kind: CommandClass = Field(alias="class")
    refused_flags: tuple[str, ...]
    script: bool = False
    #: Proves nothing: refused as an acceptance test where the contract asks for strict acceptance.
    trivial: bool = False


class CommandAllowlist(_Policy):
    version: Literal["1"]
    commands: tuple[CommandRule, ...] = Field(min_length=1)


class ForbiddenAction(_Policy):
    """A run of words that no command may contain."""

    name: str = Field(min_length=1)
    argv: tuple[str, ...] = Field(min_length=1)


class ForbiddenActions(_Policy):
    version: Literal["1"]
    actions: tuple[ForbiddenAction, ...] = Field(min_length=1)
    #: The only MCP tools that a contract may name.
    mcp_tools: tuple[str, ...]


class PathClass(_Policy):
    """Paths by gitignore patterns, compared without regard to case, and the contract field that opens them."""

    name: ProtectedClass
    opened_by: Literal["nothing", "scope.allow_protected_paths", "scope.allow_dependency_change", "append-only"]
    patterns: tuple[str, ...] = Field(min_length=1)


class DiffLimits(_Policy):
    """Bytes of one changed file, bytes of the whole diff, number of changed files."""

    max_file_bytes: int = Field(gt=0)
    max_diff_bytes: int = Field(gt=0)
    max_changed_files: int = Field(gt=0)


class ProtectedPaths(_Policy):
    version: Literal["1"]
    classes: tuple[PathClass, ...]
    limits: DiffLimits


@dataclass(frozen=True)
class Policies:
    """All policies, and the digest that fixes them in every bundle."""

    registry: AgentRegistry
    allowlist: CommandAllowlist
    forbidden: ForbiddenActions
    protected: ProtectedPaths
    matchers: tuple[tuple[PathClass, pathspec.GitIgnoreSpec], ...]
    sha256: str

    def agent(self, role: str, agent_id: str) -> RegisteredAgent | None:
        """The registered agent of that id and role."""
        return next((a for a in self.registry.agents if a.role == role and a.agent_id == agent_id), None)

    def path_class(self, path: bytes) -> PathClass | None:
        """The first class that ``path`` (of the repository, with ``/``) falls into; bytes that are not UTF-8 match as is."""
        text = path.decode("utf-8", "surrogateescape").casefold()
        return next((kind for kind, spec in self.matchers if spec.match_file(text)), None)


FILES = ("agent_registry.json", "command_allowlist.json", "forbidden_actions.json", "protected_paths.json")


def load(folder: Path) -> Policies:
    """Read and validate the policies in ``folder``. Raises ConfigurationError naming the file and the place."""
    contents = {name: _read(folder / name) for name in FILES}
    try:
        registry = codec.decode(contents["agent_registry.json"], AgentRegistry)
    except MalformedError as error:
        raise ConfigurationError(f"{folder / 'agent_registry.json'}: {error}") from error
    protected = _parse(folder, "protected_paths.json", ProtectedPaths, contents)
    digest = hashlib.sha256()
    for name in FILES:
        digest.update(hashlib.sha256(contents[name]).digest())
    return Policies(
        registry=registry,
        allowlist=_parse(folder, "command_allowlist.json", CommandAllowlist, contents),
        forbidden=_parse(folder, "forbidden_actions.json", ForbiddenActions, contents),
        protected=protected,
        matchers=tuple(
            (kind, pathspec.GitIgnoreSpec.from_lines(pattern.casefold() for pattern in kind.patterns))
            for kind in protected.classes
        ),
        sha256=digest.hexdigest(),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"policy file {path} cannot be read: {error.strerror}") from error


def _parse(folder: Path, name: str, kind: type[P], contents: dict[str, bytes]) -> P:
    try:
        return TypeAdapter(kind).validate_json(contents[name])
    except ValidationError as error:
        raise ConfigurationError(f"{folder / name}: {error}") from error
