"""Permissions: a contract's requested permissions, compared with those of its role (specification 6.1.2; 8, mechanism 5).

A contract from outside that requests more gets less, and the report lists the difference; the dispatched task carries the
granted permissions. Every pack refuses requests that would disable the sandbox, tools that are not on the allowlist, and wider
requests from Gatewright's own roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import RolePermissions
from gatewright.contracts.vocabulary import Executor, ToolPermissions
from gatewright.permissions import FILESYSTEM_ORDER, NETWORK_ORDER, SHELL_MEANINGS, SHELL_ORDER, narrower
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.full_access import names_full_access
from gatewright.services.gatekeeper.policies.packs import PackRules
from gatewright.services.gatekeeper.policies.roles import IMPLEMENTING
from gatewright.worker_role import WORKER, ways

FULL_ACCESS = "danger_full_access"


def judge_permissions(context: GateContext, contract: TaskContract, pack: PackRules, *, from_outside: bool) -> TaskContract:
    """Narrow the contract's permissions to those of its role, in every place that states them.

    1. The role is registered.
    2. Each permission is the narrowest of requested, registered and the pack's. A shell with approvals requires a contract
       whose requester answers them, and a role policy that permits it.
    3. MCP tools are on the role's allowlist, in all three places. A worker's includes the tools of the operator's servers.
    4. The resulting approval policy is recorded.

    Returns:
        The contract with the granted permissions.
    """
    report, policies = context.report, context.policies
    agent = contract.assigned_agent
    known = policies.agent(agent.role, agent.agent_id)
    if known is None:  # 1
        report.violate("agent_unknown", "agent_registry", f"{agent.role} {agent.agent_id!r} is not registered")
        return contract
    report.checked("agent_registry", f"{agent.role} {agent.agent_id!r}")
    asked, clamp = contract.tool_permissions, from_outside and pack.wider_permissions == "clamp"
    # No box of such a role has a network: on request, people decide about the packages of its tests.
    by_people = asked.network == "on-request" and agent.role in IMPLEMENTING
    network = narrower(NETWORK_ORDER, "on-request" if by_people else known.defaults.network, pack.network)
    shell = known.defaults.approval_policy
    if shell == "never" and contract.interactive and policies.roles.of(agent.role).interactive:
        shell = "on-request"
    granted = ToolPermissions(  # 2
        filesystem=narrower(FILESYSTEM_ORDER, asked.filesystem, known.defaults.sandbox),
        shell=narrower(SHELL_ORDER, asked.shell, shell),
        network=narrower(NETWORK_ORDER, asked.network, network),
        mcp_tools=asked.mcp_tools,
    )
    for name in ("filesystem", "shell", "network"):
        _compare(report, name, getattr(asked, name), getattr(granted, name), clamp=clamp)
    _tools(context, contract)  # 3
    meaning = SHELL_MEANINGS[granted.shell]
    report.checked("approval_policy", f"{meaning.approval_policy or 'unset'}: {meaning.words}")  # 4
    return narrow_permissions(contract, granted) if clamp else contract


def narrow_permissions(contract: TaskContract, granted: ToolPermissions) -> TaskContract:
    """Return the contract with the granted permissions, and the requested ones beside them where they were wider."""
    role, asked = contract.role_contract, contract.tool_permissions
    if role is not None:
        view = RolePermissions(filesystem=granted.filesystem, shell=granted.shell, network=granted.network)
        role = replace(role, tool_permissions=view)
    return replace(
        contract, tool_permissions=granted, role_contract=role, requested_permissions=None if asked == granted else asked
    )


def judge_full_access(context: GateContext, contract: TaskContract) -> None:
    """Refuse everything that an agent's tool may interpret as "no sandbox" or "no approvals", in any field."""
    report = context.report
    report.checked(FULL_ACCESS, "never")
    for place, words in (*_contract_words(contract), *_executor_words(ways(contract))):
        if names_full_access(words):
            report.violate(FULL_ACCESS, FULL_ACCESS, f"{place} would switch the sandbox or the approvals off")


def judge_executor_access(context: GateContext, executors: Iterable[Executor]) -> None:
    """Apply the rule of ``judge_full_access`` to the executors of a request."""
    report = context.report
    report.checked(FULL_ACCESS, "never")
    for place, words in _executor_words(executors):
        if names_full_access(words):
            report.violate(FULL_ACCESS, FULL_ACCESS, f"{place} would switch the sandbox or the approvals off")


def _compare(report: GateReportBuilder, name: str, asked: str, granted: str, *, clamp: bool) -> None:
    rule = f"agent_registry.{name}"
    if asked == granted:
        report.checked(rule, f"asked {asked}, granted")
    elif clamp:
        report.checked(rule, f"asked {asked}, granted {granted}")
        report.saw(f"clamped.{name}", f"{asked} -> {granted}")
    else:
        report.violate("permission_too_wide", rule, f"{name}: {asked} asked for, {granted} is the most")


def _tools(context: GateContext, contract: TaskContract) -> None:
    report, policies = context.report, context.policies
    places = {
        "mcp_tools": contract.tool_permissions.mcp_tools,
        "mcp_tool_set": contract.mcp_tool_set,
        "role_contract.resolved_mcp_tool_set": contract.role_contract.resolved_mcp_tool_set if contract.role_contract else (),
    }
    known = {*policies.forbidden.mcp_tools, *policies.agents.tools}
    allowed = {*policies.roles.of(contract.assigned_agent.role).mcp_tools}
    if contract.assigned_agent.role == WORKER.role:
        allowed |= policies.agents.tools
    for rule, tools in places.items():
        report.checked(rule, f"{len(tools)} tool(s), all on the allowlist of {contract.assigned_agent.role}")
        for tool in tools:
            if tool not in known:
                report.violate("tool_unknown", rule, f"the tool {tool!r} is not on the allowlist")
            elif tool not in allowed:
                report.violate("tool_unknown", rule, f"the tool {tool!r} is not for a {contract.assigned_agent.role}")


def _contract_words(contract: TaskContract) -> Iterator[tuple[str, str]]:
    for test in contract.acceptance_tests:
        yield f"acceptance_tests {test.name!r}", test.cmd
    for tool in (*contract.tool_permissions.mcp_tools, *contract.mcp_tool_set):
        yield "mcp tools", tool
    if contract.environment is not None:
        yield "environment", contract.environment.prefix
    if contract.runtime_options is not None:
        yield "runtime_options.provider", contract.runtime_options.provider or ""
    role = contract.role_contract
    if role is None:
        return
    binding = role.runtime_binding
    for place, words in (("runner", binding.runner), ("provider", binding.provider), ("model", binding.model)):
        yield f"role_contract.runtime_binding.{place}", words or ""
    yield "role_contract.mcp_bundle_ref", role.mcp_bundle_ref or ""
    yield "role_contract.skills_bundle_ref", role.skills_bundle_ref or ""
    for tool in role.resolved_mcp_tool_set:
        yield "role_contract.resolved_mcp_tool_set", tool


def _executor_words(executors: Iterable[Executor]) -> Iterator[tuple[str, str]]:
    for executor in executors:
        for command in executor.commands:
            yield "the executor", command
