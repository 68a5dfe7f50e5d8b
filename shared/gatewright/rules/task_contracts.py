"""Contracts that the gatekeeper itself writes: planning, review, test, and fix rounds."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from gatewright.artifacts import stored_digest, stored_uri
from gatewright.contracts import GateReport, ReviewReport, RunRequest, TaskContract, TaskResult, TestReport, codec
from gatewright.contracts.people.revision_orders import FoundFault
from gatewright.contracts.task_contract import RequiredOutput
from gatewright.contracts.vocabulary import Agent, Artifact, ToolPermissions
from gatewright.order_artifacts.hidden_acceptance import hidden_files, visible
from gatewright.research.findings import FINDINGS, is_finding
from gatewright.rules.shards import attempt_id, plan_task_id
from gatewright.run.state import Run
from gatewright.tasks.earlier_round import Left, handed_on, name_of
from gatewright.tasks.protocol import CANDIDATE
from gatewright.tasks.provided import provided

TECH_LEAD = Agent(role="TECH_LEAD", agent_id="techlead-1")
REVIEWER = Agent(role="REVIEWER", agent_id="reviewer-1")
TEST_RUNNER = Agent(role="TEST_RUNNER", agent_id="testrunner-1")

READ_ONLY = ToolPermissions(filesystem="read-only", shell="never", network="deny", mcp_tools=())
#: No command of a search has a network: ``research.json`` states what its process may fetch.
SEARCHER = Agent(role="SEARCHER", agent_id="searcher-1")
TESTING = ToolPermissions(filesystem="workspace-write", shell="never", network="deny", mcp_tools=())


def no_shell_unless(contract: TaskContract, permissions: ToolPermissions) -> ToolPermissions:
    """Remove the shell permission if the contract denies the shell: this applies to every task under it."""
    return replace(permissions, shell="deny") if contract.tool_permissions.shell == "deny" else permissions


def pm_task_id(run_id: str) -> str:
    return f"{run_id}.pm"


def planning(contract: TaskContract, run_id: str) -> TaskContract:
    """Return the tech lead's task of splitting this contract. Workers' permissions are beside the tech lead's own."""
    return replace(
        visible(contract),
        task_id=plan_task_id(run_id),
        parent_task_id=contract.task_id,
        task_type="PLAN",
        assigned_agent=TECH_LEAD,
        tool_permissions=no_shell_unless(contract, READ_ONLY),
        requested_permissions=contract.tool_permissions,
        required_outputs=(RequiredOutput(name="plan", type="json", acceptance="disjoint shards inside allowed_paths"),),
        role_contract=None,
    )


def searching(contract: TaskContract, run_id: str) -> TaskContract:
    """Return the searcher's task: the question of the contract."""
    return replace(contract, task_id=f"{run_id}.search", parent_task_id=contract.task_id)


def reviewing(run: Run, contract: TaskContract, patch: str) -> TaskContract:
    """Return the reviewer's task. That of a search has the findings and their sources.

    Args:
        run: the run, seen from the candidate.
        contract: the contract.
        patch: artifact URI of the candidate's canonical patch.
    """
    order = _judging(visible(contract), patch)
    found = tuple(each for task in run.workers() if task.result for each in task.result.artifacts if is_finding(each.name))
    if run.kind.result == FINDINGS:
        order = replace(order, inputs=replace(order.inputs, artifacts=(*order.inputs.artifacts, *found)))
    return replace(
        order,
        task_id=_judge_id(run, "review"),
        candidate=run.chosen or None,
        task_type="REVIEW",
        assigned_agent=REVIEWER,
        tool_permissions=READ_ONLY,
        required_outputs=(RequiredOutput(name="review_report", type="report", acceptance="review_report.v1"),),
        attempt=run.attempt,
    )


def testing(run: Run, contract: TaskContract, patch: str) -> TaskContract:
    """Return the test runner's task on the same candidate, with the environments that were pulled for it."""
    order = _judging(contract, patch)
    if run.pulled is not None:
        order = replace(order, environment=run.pulled.shown, baseline_environment=contract.environment)
    return replace(
        order,
        task_id=_judge_id(run, "test"),
        candidate=run.chosen or None,
        task_type="TEST",
        assigned_agent=TEST_RUNNER,
        tool_permissions=TESTING,
        required_outputs=(RequiredOutput(name="test_report", type="report", acceptance="test_report.v1"),),
        attempt=run.attempt,
        mutation=run.accepted.mutation,
    )


def fixing(contract: TaskContract, attempt: int, evidence: FoundFault, result: TaskResult | None) -> TaskContract:
    """Return a new contract whose parent is the failed one, with the evidence of the failure (specification 7, S5).

    Args:
        contract: the failed contract.
        attempt: number of the new attempt.
        evidence: the part of the fault that the maker may see.
        result: the failed task's result, where it had one.
    """
    digest = hashlib.sha256(codec.encode(evidence)).hexdigest()
    uri = stored_uri(digest)
    name = name_of(_left_over(evidence), attempt - 1)
    handed = handed_on(contract, result, Artifact(name=name, uri=uri, sha256=digest))
    return replace(
        contract,
        task_id=attempt_id(contract.task_id.rpartition(".a")[0] if contract.attempt > 1 else contract.task_id, attempt),
        parent_task_id=contract.task_id,
        attempt=attempt,
        inputs=replace(contract.inputs, artifacts=handed),
        evidence_links=(*contract.evidence_links, uri),
    )


def _left_over(evidence: FoundFault) -> Left:
    match evidence:
        case ReviewReport():
            return "review_report"
        case TestReport():
            return "test_report"
        case GateReport():
            return "gate_report"
        case _:
            return "revision_order"


def user_request(document: RunRequest | TaskContract) -> str:
    """Return the text of the order."""
    return document.request if isinstance(document, RunRequest) else document.inputs.spec


def _judging(contract: TaskContract, patch: str) -> TaskContract:
    digest = stored_digest(patch)
    artifact = Artifact(name=CANDIDATE, uri=patch, sha256=digest)
    given = contract.inputs.artifacts
    return replace(
        contract,
        parent_task_id=contract.task_id,
        owner_agent=TECH_LEAD,
        inputs=replace(contract.inputs, artifacts=(artifact, *provided(given), *hidden_files(given))),
        executor=None,
        candidates=None,
        role_contract=None,
        requested_permissions=None,
    )


def _judge_id(run: Run, what: str) -> str:
    whose = f".c{run.chosen}" if run.chosen else ""
    return f"{run.run_id}.{what}{whose}.a{run.attempt}"
