"""Built-in bounds of each role and the role policy: permissions, dispatch rights and answer types.

The bounds are in code because no file may widen them. A registry or role table that exceeds them is refused on load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import Field, model_validator

from gatewright.contracts import AgentRegistry, EvidenceBundle
from gatewright.contracts.codec import schema_name
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.vocabulary import Filesystem, Network, RoleName, Shell
from gatewright.permissions import FILESYSTEM_ORDER, NETWORK_ORDER, SHELL_ORDER, is_wider
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.tasks.protocol import ANSWERS

#: Roles that change files on another's order. They order no work: only the tech lead orders more work.
IMPLEMENTING: frozenset[RoleName] = frozenset({"WORKER", "UI_UX", "FRONTEND", "BACKEND", "AI", "SECURITY", "INFRA", "OPS"})
DISPATCHING: frozenset[RoleName] = frozenset({"PM", "TECH_LEAD"})
#: The only task type of a role, and the schema of its answer (specification 6.1.3). The PM has no task of this kind: it
#: receives a request and answers with a contract.
TASKS: Mapping[RoleName, TaskType] = MappingProxyType(
    {
        "TECH_LEAD": "PLAN",
        "REVIEWER": "REVIEW",
        "TEST_RUNNER": "TEST",
        "TEST": "TEST",
        "SEARCHER": "SEARCH",
        "RESEARCHER": "SEARCH",
        **dict.fromkeys(sorted(IMPLEMENTING), "IMPLEMENT"),
    }
)
OUTPUT_SCHEMAS: Mapping[TaskType, str] = MappingProxyType(
    {
        "PLAN": schema_name(ANSWERS["techlead"]),
        "IMPLEMENT": schema_name(ANSWERS["worker"]),
        "REVIEW": schema_name(ANSWERS["reviewer"]),
        "TEST": schema_name(ANSWERS["testrunner"]),
        "SEARCH": schema_name(EvidenceBundle),
    }
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Maximum permissions that a role can be registered with."""

    filesystem: Filesystem
    shell: Shell
    network: Network


_READS = Ceiling("read-only", "never", "deny")
_WRITES = Ceiling("workspace-write", "never", "deny")
_SEARCHES = Ceiling("workspace-write", "never", "allow")

#: Specification 8, mechanism 5: the role permission matrix.
CEILINGS: Mapping[RoleName, Ceiling] = MappingProxyType(
    {
        "PM": _READS,
        "TECH_LEAD": _READS,
        "REVIEWER": _READS,
        "TEST_RUNNER": _WRITES,
        "TEST": _WRITES,
        "SEARCHER": _SEARCHES,
        "RESEARCHER": _SEARCHES,
        **dict.fromkeys(sorted(IMPLEMENTING), _WRITES),
    }
)


class RolePolicy(PolicyModel):
    """One role: its permitted MCP tools, and the roles that it may dispatch to.

    ``interactive``: where its registered shell permission is ``never``, a contract whose requester answers an agent's
    permission requests may have ``on-request``.
    """

    role: RoleName
    mcp_tools: tuple[str, ...]
    may_dispatch_to: tuple[RoleName, ...]
    interactive: bool = False


class RoleTable(PolicyModel):
    version: Literal["1"]
    roles: tuple[RolePolicy, ...] = Field(min_length=1)

    def of(self, role: RoleName) -> RolePolicy:
        return next(known for known in self.roles if known.role == role)

    @model_validator(mode="after")
    def _bounds(self) -> RoleTable:
        """Check that every role occurs once, only dispatching roles dispatch, and no role orders from a higher one."""
        counted = Counter(known.role for known in self.roles)
        if set(counted) != set(get_args(RoleName)) or max(counted.values()) > 1:
            raise ValueError("every role must be named exactly once")
        for known in self.roles:
            if known.may_dispatch_to and known.role not in DISPATCHING:
                raise ValueError(f"{known.role} never dispatches")
            if known.role in known.may_dispatch_to or "PM" in known.may_dispatch_to:
                raise ValueError(f"{known.role} may dispatch only to the roles below it")
        return self


ROLES_FILE: Final = PolicyFile("roles.json", RoleTable)


def registry_faults(registry: AgentRegistry) -> Iterator[str]:
    """Yield the faults of a registry as text: an implementer who could review, an agent with more permissions than its role."""
    for agent_id, count in Counter(agent.agent_id for agent in registry.agents).items():
        if count > 1:
            yield f"{agent_id!r} is registered {count} times; one agent has one role, or it could review its own work"
    for agent in registry.agents:
        ceiling, given = CEILINGS[agent.role], agent.defaults
        if is_wider(FILESYSTEM_ORDER, given.sandbox, ceiling.filesystem):
            yield f"{agent.agent_id!r}: a {agent.role} may not have the sandbox {given.sandbox}"
        if is_wider(SHELL_ORDER, given.approval_policy, ceiling.shell):
            yield f"{agent.agent_id!r}: a {agent.role} may not have the approval policy {given.approval_policy}"
        if is_wider(NETWORK_ORDER, given.network, ceiling.network):
            yield f"{agent.agent_id!r}: a {agent.role} may not have network {given.network}"
    roles = Counter(contract.role for contract in registry.role_contracts)
    yield from (f"{role} has {count} role contracts" for role, count in roles.items() if count > 1)
    if not registry.agents:
        yield "no agent is registered"
