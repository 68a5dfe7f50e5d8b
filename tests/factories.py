"""Makers of documents for tests: valid by default, changed by keyword."""

from __future__ import annotations

from msgspec.structs import replace

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.task_contract import Inputs, LogPaths, LogRefs, RequiredOutput, Rollback
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Agent,
    Executor,
    Repository,
    TimeoutRetry,
    ToolPermissions,
)

BASELINE = "1" * 40
BASELINE_TREE = "2" * 40


def make_request(**changes: object) -> RunRequest:
    """A request for one command over ``src``."""
    request = RunRequest(
        request="modernise the sources",
        repository=Repository(url="/srv/project"),
        requested_by="tests",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="unit", cmd="true", must_pass=True),),
        executor=Executor(kind="command", commands=("python codemod.py {paths}",)),
    )
    return replace(request, **changes)


def make_contract(run_id: str = "run-0123456789", **changes: object) -> TaskContract:
    """The contract that such a request leads to."""
    contract = TaskContract(
        task_id=f"{run_id}.contract",
        task_type="IMPLEMENT",
        owner_agent=Agent(role="PM", agent_id="pm-1"),
        assigned_agent=Agent(role="WORKER", agent_id="worker-1"),
        inputs=Inputs(spec="modernise the sources", artifacts=()),
        required_outputs=(RequiredOutput(name="patch", type="patch", acceptance="applies"),),
        allowed_paths=("src",),
        forbidden_actions=("sudo",),
        acceptance_tests=(AcceptanceTest(name="unit", cmd="true", must_pass=True),),
        tool_permissions=ToolPermissions(filesystem="workspace-write", shell="never", network="deny", mcp_tools=()),
        timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=0, retry_backoff_sec=0),
        rollback=Rollback(strategy="worktree_drop", baseline_ref=BASELINE),
        evidence_links=(),
        log_refs=LogRefs(run_id=run_id, paths=LogPaths()),
        mcp_tool_set=("gatewright.workspace",),
        repository=Repository(url="/srv/project"),
        executor=Executor(kind="command", commands=("python codemod.py {paths}",)),
    )
    return replace(contract, **changes)
