"""The policy gate: may this contract be carried out at all? Judged first (specification 8, mechanism 5)."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable

from gatewright import scope
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.task_contract import HandoffChain, RoleContract, RuntimeOptions
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, Executor, Repository, ToolPermissions
from gatewright.errors import CommandRefusedError, ScopeError
from gatewright.task_inputs import LONGEST_COMMAND
from services.gatekeeper.gates.commands import check_command
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import Policies

#: From least to most: a contract may ask for what the registry grants the role, or for less.
FILESYSTEM = ("read-only", "workspace-write")
SHELL = ("deny", "never", "untrusted", "on-request")
NETWORK = ("deny", "on-request", "allow")
LANDABLE = "refs/heads/"


def judge_request(request: RunRequest, policies: Policies, found: Judgement) -> None:
    """What of a request can be judged before the pm has compiled it; what is missing is the pm's to name."""
    _paths(request.allowed_paths, request.policy_pack, policies, found)
    _commands(request.acceptance_tests, request.executor, policies, found, strict=request.strict_acceptance)
    _artifacts(request.executor, request.artifacts, found)
    _repository(request.repository, found)


def judge_contract(contract: TaskContract, policies: Policies, found: Judgement) -> None:
    """Every rule of the policy gate, on a whole contract."""
    strict = contract.runtime_options is not None and contract.runtime_options.strict_acceptance
    _paths(contract.allowed_paths, contract.policy_pack or "low", policies, found)
    _commands(contract.acceptance_tests, contract.executor, policies, found, strict=strict)
    _artifacts(contract.executor, contract.inputs.artifacts, found)
    _repository(contract.repository, found)
    _agent(contract, policies, found)
    _role_contract(contract, contract.role_contract, found)
    if contract.executor is None:
        found.violate("executor_missing", "executor", "the contract does not say how the change is made")
    if contract.timeout_retry.timeout_sec > LONGEST_COMMAND:
        found.violate("permission_too_wide", "timeout_retry", f"no command may take longer than {LONGEST_COMMAND:.0f} s")


def judge_compiled(contract: TaskContract, request: RunRequest, baseline: str, found: Judgement) -> None:
    """The pm may not order anything that the request did not say: what can be compared is compared."""
    pairs = {
        "allowed_paths": (contract.allowed_paths, request.allowed_paths),
        "acceptance_tests": (contract.acceptance_tests, request.acceptance_tests),
        "executor": (contract.executor, request.executor),
        "repository": (contract.repository, request.repository),
        "scope": (contract.scope, request.scope),
        "environment": (contract.environment, request.environment),
        "artifacts": (contract.inputs.artifacts, request.artifacts),
        "spec": (contract.inputs.spec, request.request),
        "baseline_ref": (contract.rollback.baseline_ref, baseline),
        "run_id": (contract.log_refs.run_id, found.run_id),
    }
    for name, (compiled, asked) in pairs.items():
        if compiled != asked:
            found.violate("contract_differs", "request", f"the compiled contract's {name} is not the request's")


def _paths(paths: Iterable[str], pack: str, policies: Policies, found: Judgement) -> None:
    for path in paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            found.violate(error.reason, "allowed_paths", error.message)
            continue
        kind = policies.path_class(clean.encode())
        if kind is not None and kind.name == "sacred":
            found.violate("path_protected", "protected_paths.sacred", "no contract may open it", clean.encode())
        if pack != "low" and "/" not in clean and "." not in clean:
            found.violate("path_too_broad", f"policy_pack.{pack}", "a whole top-level directory needs approval", clean.encode())


def _commands(
    tests: Iterable[AcceptanceTest], executor: Executor | None, policies: Policies, found: Judgement, *, strict: bool
) -> None:
    for test in tests:
        try:
            check_command(test.cmd, "acceptance", policies, strict=strict)
        except CommandRefusedError as error:
            found.violate(error.reason, "command_allowlist", error.message)
    for command in executor.commands if executor is not None else ():
        try:
            check_command(command, "executor", policies)
        except CommandRefusedError as error:
            found.violate(error.reason, "command_allowlist", error.message)


def _artifacts(executor: Executor | None, artifacts: Iterable[Artifact], found: Judgement) -> None:
    if executor is None:
        return
    known = {artifact.name for artifact in artifacts}
    for name in executor.artifacts:
        if name not in known:
            found.violate("executor_missing", "executor", f"there is no input artifact named {name!r}")
    given = executor.commands if executor.kind == "command" else executor.artifacts
    if not given:
        found.violate("executor_missing", "executor", f"a {executor.kind} executor needs at least one answer")


def _repository(repository: Repository | None, found: Judgement) -> None:
    if repository is None:
        found.violate("repository_missing", "repository", "the contract does not say which repository it is about")
    elif _has_credentials(repository.url):
        found.violate("repository_has_credentials", "repository", "a URL with a password would be kept as evidence")
    elif repository.landing == "target" and not (repository.target_ref or "").startswith(LANDABLE):
        found.violate("bad_ref", "repository", "landing on a target needs target_ref: refs/heads/...")


def _has_credentials(url: str) -> bool:
    try:
        return urllib.parse.urlsplit(url).password is not None
    except ValueError:
        return True


def _agent(contract: TaskContract, policies: Policies, found: Judgement) -> None:
    agent = contract.assigned_agent
    known = policies.agent(agent.role, agent.agent_id)
    if known is None:
        found.violate("agent_unknown", "agent_registry", f"{agent.role} {agent.agent_id!r} is not registered")
        return
    asked = contract.tool_permissions
    granted = known.defaults
    _no_wider("filesystem", FILESYSTEM, asked.filesystem, granted.sandbox, found)
    _no_wider("shell", SHELL, asked.shell, granted.approval_policy, found)
    _no_wider("network", NETWORK, asked.network, granted.network, found)
    for tool in (*asked.mcp_tools, *contract.mcp_tool_set):
        if tool not in policies.forbidden.mcp_tools:
            found.violate("tool_unknown", "mcp_tools", f"the tool {tool!r} is not on the allowlist")


def _no_wider(name: str, order: tuple[str, ...], asked: str, granted: str, found: Judgement) -> None:
    if order.index(asked) > order.index(granted):
        found.violate("permission_too_wide", "agent_registry", f"{name}: {asked} asked for, {granted} granted")


def _role_contract(contract: TaskContract, role: RoleContract | None, found: Judgement) -> None:
    """Specification 6.1.4: the resolved view may not drift from the fields it resolves."""
    if role is None:
        return
    asked = contract.tool_permissions
    resolved = ToolPermissions(
        filesystem=role.tool_permissions.filesystem,
        shell=role.tool_permissions.shell,
        network=role.tool_permissions.network,
        mcp_tools=asked.mcp_tools,
    )
    same_agent = (role.identity.role, role.identity.agent_id) == (
        contract.assigned_agent.role,
        contract.assigned_agent.agent_id,
    )
    options, chain = contract.runtime_options or RuntimeOptions(), contract.handoff_chain or HandoffChain()
    same_binding = (role.runtime_binding.runner, role.runtime_binding.provider) == (options.runner, options.provider)
    same_chain = role.handoff.eligible == chain.enabled and role.handoff.chain_roles == chain.roles
    same_tools = role.resolved_mcp_tool_set == contract.mcp_tool_set and resolved == asked
    if not (same_agent and same_tools and same_binding and same_chain):
        found.violate("role_contract_drift", "role_contract", "the resolved role does not agree with the contract")
