"""Compiles the contract of a complete request: no model, no judgement, nothing beyond the request.

Open fields get the minimum: the worker's least privilege, one attempt for each answer of the executor (three for an executor
that is asked again), and a change that is dropped when it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import RequestTask, RunRequest, TaskContract
from gatewright.contracts.order import Order
from gatewright.contracts.task_contract import Inputs, LogPaths, LogRefs, Rollback, RuntimeOptions
from gatewright.contracts.vocabulary import Agent, Executor, TimeoutRetry
from gatewright.errors import Fault, MalformedError, ScopeError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.profiles.choice import chosen_profile, environment_of
from gatewright.profiles.policy import NO_PROFILES, EnvironmentsPolicy
from gatewright.rules.contracts import contract_task_id, with_role
from gatewright.run.kinds import KINDS
from gatewright.worker_role import PERMISSIONS, WORKER, answers, has_answers, tool_set, ways

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


# Completeness of a request before it can become a contract. Pure; the gatekeeper judges whether it is permitted.
INCOMPLETE = "request_incomplete"


def check_complete(request: RunRequest) -> None:
    """Check that ``request`` has everything that a contract needs.

    Raises:
        MalformedError: has a fault for everything that is missing or unusable, by JSON pointer into the request. Its code is
            ``request_incomplete`` when a field is missing, else that of the first fault.
    """
    faults = (*_missing_fields(request), *_paths(request), *_artifacts(request), *_sharding(request))
    missing = [fault.pointer for fault in faults if fault.code == "required"]
    if missing:
        raise MalformedError(f"the request lacks {', '.join(missing)}", faults=faults, code=INCOMPLETE)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=faults[0].code)


def _missing_fields(request: RunRequest) -> Iterator[Fault]:
    unread = KINDS[request.task_type].unread
    if not request.allowed_paths and "allowed_paths" not in unread:
        yield _required_fault("/allowed_paths", "the paths that may be changed")
    if not request.acceptance_tests and "acceptance_tests" not in unread:
        yield _required_fault("/acceptance_tests", "the commands that prove the change")
    if not ways(request) and "executor" not in unread:
        *others, last = EXECUTOR_KINDS
        yield _required_fault("/executor", f"how the change is made: {', '.join(others)} or {last}")
    for pointer, executor in _executors(request):
        if not has_answers(executor):
            yield _required_fault(
                f"{pointer}/{EXECUTOR_KINDS[executor.kind].answers}", f"at least one answer for the {executor.kind} executor"
            )


def _executors(request: RunRequest) -> Iterator[tuple[str, Executor]]:
    """Every executor of the request, and where in it it stands."""
    if request.executor is not None:
        yield "/executor", request.executor
    for number, executor in enumerate(request.candidates or ()):
        yield f"/candidates/{number}", executor


def _paths(request: RunRequest) -> Iterator[Fault]:
    for number, path in enumerate(request.allowed_paths):
        try:
            scope.check_allowed_path(path)
        except ScopeError as error:
            yield Fault(f"/allowed_paths/{number}", error.reason, error.message)


def _artifacts(request: RunRequest) -> Iterator[Fault]:
    names = Counter(artifact.name for artifact in request.artifacts)
    for number, artifact in enumerate(request.artifacts):
        if names[artifact.name] > 1:
            yield Fault(f"/artifacts/{number}/name", "duplicate_name", "another artifact has this name too")
    for pointer, executor in _executors(request):
        for number, name in enumerate(executor.artifacts):
            if name not in names:
                words = "is not the name of an artifact of the request"
                yield Fault(f"{pointer}/artifacts/{number}", "unknown_artifact", words)


def _sharding(request: RunRequest) -> Iterator[Fault]:
    executor = request.executor
    if request.sharding is None or request.sharding.count == 1 or executor is None:
        return
    if EXECUTOR_KINDS[executor.kind].answers != "commands":
        return
    for number, command in enumerate(executor.commands):
        if not scope.takes_paths(command):
            words = f"must take the word {scope.PATHS_WORD}, or every shard would do the whole work"
            yield Fault(f"/executor/commands/{number}", "paths_word_missing", words)


def _required_fault(pointer: str, what: str) -> Fault:
    return Fault(pointer, "required", f"is required: {what}")
