"""The policy gate: may this contract be carried out? Judged first (specification 8, mechanism 5).

The order of the rules is the order of the report. Each group of rules has its own module: permissions, dispatch, packs,
forbidden actions, organisation rules. Breadth needs the baseline and follows later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gatewright import scope
from gatewright.budgets import LONGEST_COMMAND
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, Budget, Executor, PolicyPack, Repository
from gatewright.errors import DeniedError, MalformedError, ScopeError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.refs import check_landing_ref, holds_credentials
from gatewright.profiles.choice import chosen_profile
from gatewright.rules.contracts import differences, unlike_compiled
from gatewright.rules.shards import PARTS_OF_CANDIDATES
from gatewright.run.kinds import KINDS
from gatewright.services.gatekeeper.gates.cel_gate import judge_contract_rules
from gatewright.services.gatekeeper.gates.change.destructive import by_allowlist, judge_destructive
from gatewright.services.gatekeeper.gates.commands.gate import judge_commands
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.contract.dispatch import judge_dispatch, judge_order
from gatewright.services.gatekeeper.gates.contract.forbidden_actions import judge_forbidden_commands
from gatewright.services.gatekeeper.gates.contract.kinds import judge_kind
from gatewright.services.gatekeeper.gates.contract.packs import judge_pack
from gatewright.services.gatekeeper.gates.contract.permissions import (
    judge_executor_access,
    judge_full_access,
    judge_permissions,
)
from gatewright.services.gatekeeper.gates.contract.provided import judge_hidden, judge_provided
from gatewright.services.gatekeeper.gates.contract.role_contract import judge_output_schema, judge_role_contract
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.services.gatekeeper.policies.pools import POOLED_ROLES, RunNeeds
from gatewright.worker_role import has_answers, ways

LANDABLE = "refs/heads/"


def judge_request(context: GateContext, request: RunRequest) -> None:
    """Judge what can be judged of a request before the pm compiles it. The pm reports what is missing."""
    judge_kind(context, request)
    judge_executor_access(context, ways(request))
    _paths(context, request.allowed_paths)
    pack = judge_pack(context, request.policy_pack, request, KINDS[request.task_type])
    strict = request.strict_acceptance or pack.strict_acceptance
    judge_commands(context, request.acceptance_tests, ways(request), strict=strict)
    _ways(context, request, request.artifacts)
    judge_provided(context, request.artifacts, request.scope)
    judge_hidden(context, request.acceptance_tests, request.artifacts)
    _judge_audits(context, request.acceptance_tests)
    _check_repository(context.report, request.repository)
    judge_pools(context, request)


def judge_contract(context: GateContext, contract: TaskContract, *, from_outside: bool = True) -> TaskContract:
    """Apply every rule of the policy gate except breadth to a whole contract.

    Args:
        context: the gate context.
        contract: the contract.
        from_outside: a contract from outside may request more permissions than its role has, and gets less. A contract that one
            of Gatewright's roles wrote must be correct as it is.

    Returns:
        The contract with the granted permissions.
    """
    report, policies = context.report, context.policies
    name: PolicyPack = contract.policy_pack or policies.packs.default
    judge_kind(context, contract)
    judge_full_access(context, contract)
    _paths(context, contract.allowed_paths)
    pack = judge_pack(context, name, contract, KINDS[contract.task_type])
    strict = pack.strict_acceptance or (contract.runtime_options is not None and contract.runtime_options.strict_acceptance)
    judge_commands(context, contract.acceptance_tests, ways(contract), strict=strict)
    judge_forbidden_commands(context, contract)
    if not ways(contract) and KINDS[contract.task_type].works:
        report.violate("executor_missing", "executor", "the contract does not state how the change is made")
    _ways(context, contract, contract.inputs.artifacts)
    judge_provided(context, contract.inputs.artifacts, contract.scope)
    judge_hidden(context, contract.acceptance_tests, contract.inputs.artifacts)
    _judge_audits(context, contract.acceptance_tests)
    judge_destructive(context, contract, by_allowlist(policies))
    _check_repository(report, contract.repository)
    judge_pools(context, contract)
    judge_order(context, contract)
    judge_dispatch(context, contract)
    judge_role_contract(context, contract)
    judge_output_schema(context, contract)
    granted = judge_permissions(context, contract, pack, from_outside=from_outside)
    report.checked("timeout_retry")
    if contract.timeout_retry.timeout_sec > LONGEST_COMMAND:
        report.violate("permission_too_wide", "timeout_retry", f"no command may take longer than {LONGEST_COMMAND:.0f} s")
    judge_contract_rules(context, granted)
    return granted


def judge_compiled(context: GateContext, contract: TaskContract, request: RunRequest, baseline: str) -> None:
    """Check that the pm ordered nothing beyond the request, for every field that can be compared."""
    report = context.report
    report.checked("request", "the contract is the request's")
    for name in differences(contract, request, baseline, report.run_id):
        report.violate("contract_differs", "request", f"the compiled contract's {name} is not the request's")
    # A proposal may have added the fields that the language is derived from; the contract's values apply.
    whole = replace(request, acceptance_tests=contract.acceptance_tests, executor=contract.executor)
    if contract.environment_profile != chosen_profile(whole, context.policies.environments):
        report.violate("contract_differs", "environments", "the environment_profile is not that of environments.json")


def judge_form(context: GateContext, contract: TaskContract) -> None:
    """Check the fields that the pm fills with the same values in every contract."""
    for name in unlike_compiled(contract, context.report.run_id):
        context.report.violate("contract_differs", "request", f"the compiled contract's {name} is not what the pm may give it")


def _judge_audits(context: GateContext, tests: Iterable[AcceptanceTest]) -> None:
    """Check that the limits of each audit are of its kind: no other would be read."""
    for test in tests:
        if test.audit is not None and test.audit.fault:
            context.report.violate("audit_invalid", "acceptance_tests", f"{test.name}: {test.audit.fault}")


def _paths(context: GateContext, paths: Iterable[str]) -> None:
    report = context.report
    report.checked("allowed_paths", ", ".join(paths))
    report.checked("protected_paths.sacred", "no allowed path is one")
    for path in paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            report.violate(error.reason, "allowed_paths", error.message)
            continue
        if _is_sacred(clean, context.policies):
            report.violate("path_protected", "protected_paths.sacred", "no contract may open it", clean.encode())


def _is_sacred(path: str, policies: Policies) -> bool:
    """Return whether ``path`` is sacred in both readings, as a file and as a folder."""
    forms = (path, f"{path}/-")
    return not policies.content_decides(path.encode()) and all(
        any(kind.name == "sacred" for kind in policies.path_classes(form.encode())) for form in forms
    )


def _ways(context: GateContext, order: RunRequest | TaskContract, artifacts: Sequence[Artifact]) -> None:
    """Judge every executor of the order. With candidates, each replaces the single executor and makes the whole change."""
    report = context.report
    if order.candidates is not None:
        report.checked("candidates", f"{len(order.candidates)}, of which one lands")
        if order.executor is not None:
            report.violate("executor_contradicts", "candidates", "candidates stand in the place of the executor")
        if order.sharding is not None and order.sharding.count > 1:
            words = "each candidate makes the whole change: it is not split into parts"
            report.violate(PARTS_OF_CANDIDATES, "candidates", words)
    for executor in ways(order):
        _artifacts(report, executor, artifacts)
        judge_asked(context, executor, order.budget)


def _artifacts(report: GateReportBuilder, executor: Executor, artifacts: Iterable[Artifact]) -> None:
    report.checked("executor", " ".join(filter(None, (executor.kind, executor.agent, executor.model))))
    known = {artifact.name for artifact in artifacts}
    for name in executor.artifacts:
        if name not in known:
            report.violate("executor_missing", "executor", f"there is no input artifact named {name!r}")
    if not has_answers(executor):
        report.violate("executor_missing", "executor", f"a {executor.kind} executor needs at least one answer")


def _check_repository(report: GateReportBuilder, repository: Repository | None) -> None:
    report.checked("repository", repository.landing if repository is not None else "")
    if repository is None:
        report.violate("repository_missing", "repository", "the contract does not name its repository")
    elif holds_credentials(repository.url):
        report.violate("repository_has_credentials", "repository", "a URL with a password would be kept as evidence")
    elif repository.moves_target and not _landable(repository.target_ref or ""):
        report.violate("bad_ref", "repository", "landing on a target, or by its merge queue, needs target_ref: refs/heads/...")


def _landable(ref: str) -> bool:
    """Return whether ``ref`` is a well-formed branch name. Its existence is checked on the baseline's repository."""
    try:
        return check_landing_ref(ref).startswith(LANDABLE)
    except MalformedError:
        return False


# The agent and the model that a contract names must be in the operator's policies and permitted for the worker.
def judge_asked(context: GateContext, executor: Executor, budget: Budget | None) -> None:
    """Judge the agent and model that an executor names.

    Violations: ``agent_unknown``, ``executor_contradicts``, and those of ``ModelsPolicy.grant``.
    """
    report, policies = context.report, context.policies
    if not EXECUTOR_KINDS[executor.kind].asked_anew or (executor.kind == "model" and executor.agent is not None):
        named = executor.agent or (executor.model if not EXECUTOR_KINDS[executor.kind].asked_anew else None)
        if named is not None:
            report.violate("executor_contradicts", "executor", f"a {executor.kind} executor has no use for {named}")
            return
    if executor.fallback and executor.model is None:
        report.violate("executor_contradicts", "executor", "fallback requires a named model, and none is named")
        return
    if not EXECUTOR_KINDS[executor.kind].asked_anew:
        return
    model = executor.model
    report.checked("agents", executor.agent or "by default")
    try:
        if executor.agent is not None:
            model = model or policies.agents.agent(executor.agent).model
        report.checked("models", model or "by default")
        policies.models.grant("worker", model=model, fallback=executor.falls_back, budget=budget)
    except (MalformedError, DeniedError) as error:
        report.violate(error.reason, "models" if error.reason.startswith("model") else "agents", error.message)


def judge_pools(context: GateContext, order: RunRequest | TaskContract) -> None:
    """Record the pool of each role that has pools. Whether the pool has a running process is not checked."""
    report, policies = context.report, context.policies
    needs = RunNeeds.of(order, policies.environments)
    for role in POOLED_ROLES:
        rule = f"pools.{role}"
        try:
            pool = policies.pools.choose(role, needs)
        except DeniedError as error:
            report.violate(error.reason, rule, error.message)
        else:
            report.checked(rule, f"{pool}, for {needs.of_role(role).words}")
