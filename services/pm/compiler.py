"""Compiles the contract of a complete request: no model, no judgement, nothing beyond the request.

Open fields get the minimum: the worker's least privilege, one attempt for each answer of the executor (three for an executor
that is asked again), and a change that is dropped when it fails.
"""

from __future__ import annotations

from msgspec.structs import replace

from gatewright.contracts import RequestTask, RunRequest, TaskContract
from gatewright.contracts.order import Order
from gatewright.contracts.task_contract import Inputs, LogPaths, LogRefs, Rollback, RuntimeOptions
from gatewright.contracts.vocabulary import Agent, TimeoutRetry
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.profiles.choice import chosen_profile, environment_of
from gatewright.profiles.policy import NO_PROFILES, EnvironmentsPolicy
from gatewright.rules.contracts import contract_task_id, with_role
from gatewright.run.kinds import KINDS
from gatewright.services.pm.completeness import check_complete
from gatewright.worker_role import PERMISSIONS, WORKER, answers, tool_set, ways

#: Seconds for a request that sets no limit, and the most retries that a contract may ask for.
DEFAULT_SECONDS = 600.0
MOST_RETRIES = 10
#: Default attempts of an agent or a model: after three consecutive failures a person takes over.
ASKED_TRIES = 3
#: Specification 8, mechanism 5: the default denylist.
FORBIDDEN_ACTIONS = ("rm -rf", "sudo", "ssh", "curl", "wget", "edit .env")


def compile_contract(task: RequestTask, owner: Agent, profiles: EnvironmentsPolicy = NO_PROFILES) -> TaskContract:
    """The run's task contract (specification 6.1): id ``<run_id>.contract``, owned by ``owner``, assigned by its task type.

    Raises what ``check_complete`` raises.
    """
    request = task.request
    check_complete(request)
    profile = chosen_profile(request, profiles)
    shared = {name: getattr(request, name) for name in Order.__struct_fields__}
    contract = TaskContract(
        task_id=contract_task_id(task.run_id),
        task_type=request.task_type,
        owner_agent=owner,
        assigned_agent=WORKER,
        inputs=Inputs(spec=request.request, artifacts=request.artifacts),
        required_outputs=(),
        allowed_paths=request.allowed_paths,
        forbidden_actions=FORBIDDEN_ACTIONS,
        acceptance_tests=request.acceptance_tests,
        tool_permissions=replace(PERMISSIONS, network=request.network),
        policy_pack=request.policy_pack,
        timeout_retry=request.timeout_retry or _one_try_per_answer(request),
        rollback=Rollback(strategy="worktree_drop", baseline_ref=task.baseline_commit),
        evidence_links=(),
        log_refs=LogRefs(run_id=task.run_id, paths=LogPaths()),
        mcp_tool_set=tool_set(request),
        runtime_options=RuntimeOptions(strict_acceptance=True) if request.strict_acceptance else None,
        repository=request.repository,
        environment_profile=profile,
        **shared | {"environment": environment_of(request, profile)},
    )
    return with_role(contract)


def _one_try_per_answer(request: RunRequest) -> TimeoutRetry:
    tries = max(
        (ASKED_TRIES if EXECUTOR_KINDS[executor.kind].asked_anew else len(answers(executor)) for executor in ways(request)),
        default=1,
    )
    retries = min(tries - 1, MOST_RETRIES) if KINDS[request.task_type].lands else 0
    return TimeoutRetry(timeout_sec=DEFAULT_SECONDS, max_retries=retries, retry_backoff_sec=0)
