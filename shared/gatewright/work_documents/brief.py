"""A run's order as a brief: mission, boundary, and the command that proves it (OmegaOS, prompt protocols)."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import Brief, OrchestratorEvent, TaskContract
from gatewright.contracts.work_documents import BriefContext, BriefScope, BriefSpec
from gatewright.errors import MalformedError
from gatewright.evidence.projection.decisions import BINDING, decisions_of
from gatewright.prompts.sections import mission_line
from gatewright.rules.landing import lands_by_queue
from gatewright.run import events as e
from gatewright.run.state import AskedApproval, Run
from gatewright.worker_role import ways

#: What has to pass before a run is done, in the order of its life.
GATES: tuple[str, ...] = (
    *("policy", "plan", "locks", "diff", "citations", "integrated", "reviewer", "environment", "tests"),
    *("approval", "queue", "landing"),
)

#: The states of requests that needed no answer of a person, or were replaced by another one.
_NOT_REQUIRED = frozenset({"autopilot", "withdrawn", "lapsed"})


def brief_of(run: Run, records: Sequence[OrchestratorEvent]) -> Brief:
    """The brief of a run. Raises MalformedError: ``no_contract``, or ``no_verify_command`` where no test must pass."""
    contract = run.contract
    if contract is None:
        raise MalformedError(f"{run.run_id} has no contract, and so no brief", code="no_contract")
    repository, command = contract.repository, verify_command(contract)
    if not command:
        raise MalformedError(f"nothing must pass in {run.run_id}, so nothing can prove it", code="no_verify_command")
    return Brief(
        id=contract.task_id,
        mission=mission_of(contract),
        purpose=run.accepted.user_request,
        context=BriefContext(
            project_root=run.accepted.repository_url,
            stack="",
            prior_runs=(contract.parent_task_id,) if contract.parent_task_id else (),
        ),
        whats_done=_done_before(records),
        current_task=_task(contract),
        done_criteria=_criteria(contract),
        verify_command=command,
        key_decisions=_binding_decisions(run, records),
        spec=BriefSpec(scope=BriefScope(files_owned=contract.allowed_paths)),
        relevant_memories=(),
        ship=repository is not None and repository.moves_target,
        audit_gates=gates_required(run),
        lifecycle="ephemeral",
    )


def gates_required(run: Run) -> tuple[str, ...]:
    """Return the gates that must pass before this run is done: people only if the run had to wait for one."""
    kind = run.kind
    asked = {"plan": kind.plans, "locks": kind.lands, "diff": kind.lands, "citations": kind.searches}
    asked |= {"integrated": kind.works or kind.examines, "reviewer": kind.reviews, "tests": kind.tests, "landing": kind.lands}
    asked |= {"approval": bool(approvals_required(run)), "queue": lands_by_queue(run)}
    asked |= {"environment": run.changed_order is not None}
    return tuple(gate for gate in GATES if asked.get(gate, True))


def approvals_required(run: Run) -> tuple[AskedApproval, ...]:
    """The requests that the run could not land without.

    A question beside the run is none: the run goes on without an answer. Neither is a request that no longer applies, or that a
    rule approved by itself.
    """
    every = run.approvals.values()
    return tuple(each for each in every if each.request.stage != "beside" and each.status not in _NOT_REQUIRED)


def _binding_decisions(run: Run, records: Sequence[OrchestratorEvent]) -> tuple[str, ...]:
    """What was settled before the work and binds it; how it came out is no part of an order."""
    decisions = decisions_of(run, records).decisions
    return tuple(f"{each.title}: {each.decision}" for each in decisions if each.title in BINDING)


def mission_of(contract: TaskContract) -> str:
    """The contract's words on one line, cut to what a mission may have."""
    return mission_line(contract.inputs.spec) or contract.task_id


def verify_command(contract: TaskContract) -> str:
    """The commands that must succeed, as one line; each of them is an argv, run without a shell."""
    return " && ".join(test.cmd for test in contract.acceptance_tests if test.must_pass)


def _criteria(contract: TaskContract) -> str:
    names = [test.name or test.cmd for test in contract.acceptance_tests if test.must_pass]
    return f"exit code 0: {', '.join(names)}" if names else "nothing must pass"


def _task(contract: TaskContract) -> str:
    named = [executor.agent or executor.model or executor.kind for executor in ways(contract)]
    how = f" with {', '.join(named)}" if named else ""
    return f"{contract.task_type} in {', '.join(contract.allowed_paths)}{how}"


def _done_before(records: Sequence[OrchestratorEvent]) -> tuple[str, ...]:
    """The rounds that were made and refused."""
    ordered = [payload for record in records if isinstance(payload := e.event_of(record), e.FixOrdered)]
    return tuple(f"attempt {each.attempt - 1} was refused: {each.reason}" for each in ordered)
