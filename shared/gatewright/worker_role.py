"""The worker as contracts name it: registered agent, least privilege, resolved view (specification 6.1.4), answers."""

from __future__ import annotations

from msgspec.structs import replace

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.task_contract import (
    Handoff,
    HandoffChain,
    RequiredOutput,
    RoleContract,
    RoleIdentity,
    RolePermissions,
    RuntimeBinding,
    RuntimeOptions,
)
from gatewright.contracts.vocabulary import Agent, Executor, ToolPermissions
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.permissions import FILESYSTEM_ORDER, NETWORK_ORDER, SHELL_ORDER, narrower

#: Whichever process takes the task: contracts name the role's registered agent, results the process that did the work.
WORKER = Agent(role="WORKER", agent_id="worker-1")
PERMISSIONS = ToolPermissions(filesystem="workspace-write", shell="never", network="deny", mcp_tools=())
REQUIRED_OUTPUTS = (RequiredOutput(name="patch", type="patch", acceptance="applies to the baseline, inside allowed_paths"),)
#: The tool that every worker has: the job's own workspace.
TOOL_SET = ("gatewright.workspace",)

_FAIL_CLOSED = (
    "a changed path outside allowed_paths",
    "an executor that fails or has no answer for the attempt",
    "a sandbox or an environment that cannot be had",
    "an input artifact whose digest is not the one named here",
)


def asks_models(role: str, contract: TaskContract | None) -> bool:
    """Return whether a task of ``role`` always calls a model. Other roles may call one, and report their first turn."""
    executor = contract.executor if contract is not None else None
    return role == "worker" and executor is not None and EXECUTOR_KINDS[executor.kind].asks_models


def worker_permissions(*, interactive: bool) -> ToolPermissions:
    """The most that a worker works with: commands that want an approval only where there is a person to give it."""
    return replace(PERMISSIONS, shell="on-request") if interactive else PERMISSIONS


def least_permissions(contract: TaskContract) -> ToolPermissions:
    """Return a worker's permissions for a shard of the contract: the least it can work with, and never more."""
    granted, most = contract.tool_permissions, worker_permissions(interactive=contract.interactive)
    return ToolPermissions(
        filesystem=narrower(FILESYSTEM_ORDER, granted.filesystem, most.filesystem),
        shell=narrower(SHELL_ORDER, granted.shell, most.shell),
        network=narrower(NETWORK_ORDER, granted.network, most.network),
        mcp_tools=server_tools(contract),
    )


def tool_set(request: RunRequest) -> tuple[str, ...]:
    """Return every tool of the contract that is compiled from a request."""
    return (*TOOL_SET, *request.mcp_tools)


def server_tools(order: RunRequest | TaskContract) -> tuple[str, ...]:
    """Return the tools of servers that an order gives to coding agents, as SERVER.TOOL."""
    if isinstance(order, RunRequest):
        return order.mcp_tools
    return tuple(tool for tool in order.mcp_tool_set if tool not in TOOL_SET and tool in order.tool_permissions.mcp_tools)


def resolve_role(contract: TaskContract) -> RoleContract:
    """Return the role of a worker's contract, resolved from the contract's own fields so that the two cannot differ."""
    asked, options, chain = contract.tool_permissions, contract.runtime_options or RuntimeOptions(), contract.handoff_chain
    return RoleContract(
        identity=RoleIdentity(role=contract.assigned_agent.role, agent_id=contract.assigned_agent.agent_id),
        purpose="make the change that the contract orders, and hand over a patch",
        system_prompt_ref=None,
        skills_bundle_ref=None,
        mcp_bundle_ref=None,
        runtime_binding=RuntimeBinding(runner=options.runner, provider=options.provider, model=None),
        tool_permissions=RolePermissions(filesystem=asked.filesystem, shell=asked.shell, network=asked.network),
        resolved_mcp_tool_set=contract.mcp_tool_set,
        handoff=_handoff(chain or HandoffChain()),
        fail_closed_conditions=_FAIL_CLOSED,
    )


def ways(order: RunRequest | TaskContract) -> tuple[Executor, ...]:
    """Return the order's executor, or that of each candidate; none if it is left open."""
    return order.candidates or ((order.executor,) if order.executor is not None else ())


def has_answers(executor: Executor) -> bool:
    """Return whether there is an answer for a first attempt."""
    return EXECUTOR_KINDS[executor.kind].asked_anew or bool(answers(executor))


def answer_of(executor: Executor, attempt: int) -> str | None:
    """Return the answer for attempt number ``attempt``: empty for an executor that is called, None without one left."""
    if EXECUTOR_KINDS[executor.kind].asked_anew:
        return ""
    given = answers(executor)
    return given[attempt - 1] if attempt <= len(given) else None


def answers(executor: Executor) -> tuple[str, ...]:
    """Return the executor's answers, one per attempt: commands, or names of input artifacts; none if it is called."""
    return executor.commands if EXECUTOR_KINDS[executor.kind].answers == "commands" else executor.artifacts


def _handoff(chain: HandoffChain) -> Handoff:
    return Handoff(
        eligible=chain.enabled, required_downstream_roles=(), chain_roles=chain.roles, max_handoffs=chain.max_handoffs or 0
    )
