"""A complete request becomes exactly the contract it asks for; an incomplete one is answered with every field it lacks."""

from __future__ import annotations

import io

import pytest

from gatewright.contracts import Error, RequestTask, RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    Budget,
    Environment,
    Executor,
    Repository,
    Scope,
    Sharding,
    TimeoutRetry,
)
from gatewright.services.pm.handler import PmHandler
from gatewright.tasks.handler import TaskContext
from gatewright.telemetry.logs import make_logger
from gatewright.worker_role import server_tools
from tests.factories import make_request
from tests.handler_fixture import MemoryArtifacts, StandingClock

COMMIT = "c" * 40
CONTEXT = TaskContext(MemoryArtifacts(), StandingClock(), make_logger(io.BytesIO()), 1)


async def answer(request: RunRequest) -> TaskContract | Error:
    task = RequestTask(run_id="run-0123456789", task_id="run-0123456789.pm", baseline_commit=COMMIT, request=request)
    return await PmHandler("pm-1").handle(task, CONTEXT)


async def compiled(request: RunRequest) -> TaskContract:
    """The contract as the next role reads it: through the schema."""
    contract = await answer(request)
    assert isinstance(contract, TaskContract)
    return codec.decode(codec.encode(contract), TaskContract)


async def refused(request: RunRequest) -> Error:
    error = await answer(request)
    assert isinstance(error, Error)
    return codec.decode(codec.encode(error), Error)


async def test_a_request_becomes_a_contract_with_the_least_privilege() -> None:
    contract = await compiled(make_request())
    assert contract.task_id == "run-0123456789.contract"
    assert contract.log_refs.run_id == "run-0123456789"
    assert contract.task_type == "IMPLEMENT"
    assert (contract.owner_agent.agent_id, contract.assigned_agent.agent_id) == ("pm-1", "worker-1")
    asked = contract.tool_permissions
    assert (asked.filesystem, asked.shell, asked.network, asked.mcp_tools) == ("workspace-write", "never", "deny", ())
    assert (contract.rollback.strategy, contract.rollback.baseline_ref) == ("worktree_drop", COMMIT)
    assert {"rm -rf", "sudo", "ssh", "curl", "wget"} <= set(contract.forbidden_actions)
    assert (contract.evidence_links, contract.mcp_tool_set) == ((), ("gatewright.workspace",))
    assert [output.type for output in contract.required_outputs] == ["patch"]


async def test_tools_of_servers_are_named_in_each_place_of_the_contract() -> None:
    executor = Executor(kind="agent", agent="codex")
    contract = await compiled(make_request(executor=executor, mcp_tools=("docs.lookup",)))
    assert contract.mcp_tool_set == ("gatewright.workspace", "docs.lookup")
    assert contract.tool_permissions.mcp_tools == ("docs.lookup",)
    assert contract.role_contract is not None
    assert contract.role_contract.resolved_mcp_tool_set == contract.mcp_tool_set
    assert server_tools(contract) == ("docs.lookup",)


async def test_a_requester_who_answers_may_have_commands_approved_and_nothing_more() -> None:
    contract = await compiled(make_request(interactive=True))
    asked = contract.tool_permissions
    assert contract.interactive
    assert (asked.filesystem, asked.shell, asked.network, asked.mcp_tools) == ("workspace-write", "on-request", "deny", ())


async def test_the_resolved_role_matches_the_contract() -> None:
    contract = await compiled(make_request())
    role = contract.role_contract
    assert role is not None
    assert (role.identity.role, role.identity.agent_id) == (contract.assigned_agent.role, contract.assigned_agent.agent_id)
    asked, resolved = contract.tool_permissions, role.tool_permissions
    assert (resolved.filesystem, resolved.shell, resolved.network) == (asked.filesystem, asked.shell, asked.network)
    assert role.resolved_mcp_tool_set == contract.mcp_tool_set
    assert role.fail_closed_conditions


async def test_everything_in_the_request_is_carried_through() -> None:
    artifact = Artifact(name="fix.patch", uri="artifact:sha256:" + "a" * 64, sha256="a" * 64)
    request = make_request(
        repository=Repository(url="/srv/p", target_ref="refs/heads/main", landing="target"),
        executor=Executor(kind="patch", artifacts=("fix.patch",)),
        artifacts=(artifact,),
        sharding=Sharding(count=3),
        environment=Environment(prefix="/srv/env"),
        scope=Scope(allow=("binary",), allow_protected_paths=("tests",)),
        budget=Budget(wall_sec=60),
        policy_pack="high",
        timeout_retry=TimeoutRetry(timeout_sec=7, max_retries=2, retry_backoff_sec=1),
        requirement_ids=("PROJ-CAT-001",),
        strict_acceptance=True,
        audit_only=True,
    )
    contract = await compiled(request)
    for name in ("repository", "executor", "sharding", "environment", "scope", "budget", "timeout_retry", "requirement_ids"):
        assert getattr(contract, name) == getattr(request, name), name
    assert (contract.policy_pack, contract.audit_only) == ("high", True)
    assert (contract.inputs.spec, contract.inputs.artifacts) == (request.request, (artifact,))
    assert contract.runtime_options is not None
    assert contract.runtime_options.strict_acceptance


@pytest.mark.parametrize(("answers", "retries"), [(1, 0), (3, 2), (11, 10), (40, 10)])
async def test_there_is_one_attempt_for_each_answer_of_the_executor(answers: int, retries: int) -> None:
    commands = tuple(f"python step{number}.py" for number in range(answers))
    contract = await compiled(make_request(executor=Executor(kind="command", commands=commands)))
    assert contract.timeout_retry == TimeoutRetry(timeout_sec=600, max_retries=retries, retry_backoff_sec=0)


async def test_every_missing_field_is_named() -> None:
    error = await refused(make_request(allowed_paths=(), acceptance_tests=(), executor=None))
    assert error.code == "request_incomplete"
    assert [fault.pointer for fault in error.faults] == ["/allowed_paths", "/acceptance_tests", "/executor"]
    assert {fault.code for fault in error.faults} == {"required"}
    assert "/acceptance_tests" in error.message


@pytest.mark.parametrize(
    ("executor", "pointer"),
    [
        (Executor(kind="command"), "/executor/commands"),
        (Executor(kind="command", artifacts=("x",)), "/executor/commands"),
        (Executor(kind="patch", commands=("x",)), "/executor/artifacts"),
        (Executor(kind="reply"), "/executor/artifacts"),
    ],
)
async def test_an_executor_without_an_answer_is_incomplete(executor: Executor, pointer: str) -> None:
    error = await refused(make_request(executor=executor))
    assert (error.code, error.faults[0].pointer) == ("request_incomplete", pointer)


@pytest.mark.parametrize(
    ("path", "code"), [("", "path_too_broad"), ("**", "path_too_broad"), ("../x", "path_invalid"), ("src/*.py", "path_invalid")]
)
async def test_a_path_that_no_contract_may_name_is_pointed_at(path: str, code: str) -> None:
    error = await refused(make_request(allowed_paths=("src", path)))
    assert (error.code, [fault.pointer for fault in error.faults]) == (code, ["/allowed_paths/1"])


async def test_an_artifact_that_is_not_there_or_there_twice_is_pointed_at() -> None:
    artifact = Artifact(name="a", uri="artifact:sha256:" + "a" * 64, sha256="a" * 64)
    error = await refused(make_request(executor=Executor(kind="reply", artifacts=("a", "b")), artifacts=(artifact, artifact)))
    assert {(fault.pointer, fault.code) for fault in error.faults} == {
        ("/artifacts/0/name", "duplicate_name"),
        ("/artifacts/1/name", "duplicate_name"),
        ("/executor/artifacts/1", "unknown_artifact"),
    }


async def test_shards_need_a_command_that_accepts_paths() -> None:
    command = Executor(kind="command", commands=("python codemod.py src",))
    error = await refused(make_request(sharding=Sharding(count=2), executor=command))
    assert (error.code, error.faults[0].pointer) == ("paths_word_missing", "/executor/commands/0")
    assert await compiled(make_request(sharding=Sharding(count=1), executor=command))


async def test_a_missing_field_outweighs_a_wrong_one() -> None:
    error = await refused(make_request(allowed_paths=("/",), acceptance_tests=()))
    assert error.code == "request_incomplete"
    assert {fault.pointer for fault in error.faults} == {"/allowed_paths/0", "/acceptance_tests"}


async def test_the_same_request_gives_the_same_bytes() -> None:
    request = make_request(acceptance_tests=(AcceptanceTest(name="t", cmd="pytest", must_pass=True),))
    assert codec.encode(await compiled(request)) == codec.encode(await compiled(request))


async def test_candidates_are_compiled_as_they_were_asked_for() -> None:
    makers = (Executor(kind="agent", agent="codex"), Executor(kind="command", commands=("a", "b")))
    contract = await compiled(make_request(executor=None, candidates=makers))
    assert (contract.executor, contract.candidates, contract.candidate) == (None, makers, None)
    assert contract.timeout_retry.max_retries == 2


async def test_a_candidate_without_an_answer_is_named() -> None:
    makers = (Executor(kind="command", commands=("a",)), Executor(kind="command"))
    error = await refused(make_request(executor=None, candidates=makers))
    assert [fault.pointer for fault in error.faults] == ["/candidates/1/commands"]
