"""How a run ended, as a ``done`` document, and the combinations of fields that would be lies (OmegaOS)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gatewright.contracts import Done
from gatewright.contracts.work_documents import DoneAudit, DoneEvidence, DoneShip
from gatewright.errors import Fault, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.summary_reports import GATEKEEPER, failure_reason
from gatewright.work_documents.brief import approvals_required, gates_required, mission_of, verify_command
from gatewright.work_documents.remarks import unanswered_remarks

FORBIDDEN = "done_forbidden"


def done_of(history: RunHistory) -> Done:
    """The document of an ended run: ``done_clean`` for one that succeeded, else ``failed``. It passes ``check``.

    Raises MalformedError: ``done_forbidden`` for a run whose own events contradict each other so, ``no_such_document`` for a
    plan or a review, which run no tests.
    """
    run, contract = history.run, history.run.contract
    if not run.kind.tests:
        raise MalformedError(f"{run.run_id} is a {run.kind.name} run, which tests nothing", code="no_such_document")
    succeeded = run.status == "SUCCESS"
    required = gates_required(history.run)
    passed = tuple(gate for gate in required if _gate_passed(history, gate))
    done = Done(
        agent=GATEKEEPER.agent_id,
        project=run.accepted.repository_url or "unknown",
        status="done_clean" if succeeded else "failed",
        started_at=run.created_at,
        finished_at=run.finished_at,
        duration_sec=round(seconds_between(run.created_at, run.finished_at), 3),
        mission=mission_of(contract) if contract else run.accepted.user_request or run.run_id,
        evidence=_done_evidence(history),
        audit=DoneAudit(
            gates_required=required,
            gates_passed=passed,
            scores={},
            verdict="satisfied" if passed == required else "partial" if passed else "unsatisfied",
        ),
        regressions=(),
        pending_actions=tuple(f"answer: {each.message}" for each in unanswered_remarks(run)),
        ship=_ship(history),
        report_path=layout.TASK_RESULT,
    )
    refuse_forbidden(done)
    return done


def refuse_forbidden(done: Done) -> None:
    """Raises MalformedError (``done_forbidden``) with one fault for every claim that ``check`` finds false."""
    faults = check(done)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=FORBIDDEN)


def check(done: Done) -> tuple[Fault, ...]:
    """Check rules beyond the schema: combinations of fields that exclude each other.

    ``done_clean``: 1. the proof ended with 0 2. nothing is worse than before 3. every required gate passed 4. landing did not
    fail. ``pending``: 5. its slice is proved, and the rest is named. ``failed``: 6. it has a reason.
    """
    faults: list[Fault] = []
    proved = done.evidence.verify_exit_code == 0
    if done.status == "done_clean":
        if not proved:  # 1
            faults.append(Fault("/evidence/verify_exit_code", FORBIDDEN, "done_clean without an exit code of 0"))
        if done.regressions:  # 2
            faults.append(Fault("/regressions", FORBIDDEN, "done_clean with regressions"))
        missing = [gate for gate in done.audit.gates_required if gate not in done.audit.gates_passed]
        if missing:  # 3
            faults.append(Fault("/audit/gates_passed", FORBIDDEN, f"done_clean without {', '.join(missing)}"))
        if done.ship.result in {"failed", "frozen"}:  # 4
            faults.append(Fault("/ship/result", FORBIDDEN, f"done_clean after a landing that was {done.ship.result}"))
    elif done.status == "pending":
        if not proved:  # 5
            faults.append(Fault("/evidence/verify_exit_code", FORBIDDEN, "pending without an exit code of 0 for its slice"))
        if not done.pending_actions:
            faults.append(Fault("/pending_actions", FORBIDDEN, "pending, and nothing is named that is left to do"))
    elif not done.evidence.verify_stderr:  # 6
        faults.append(Fault("/evidence/verify_stderr", FORBIDDEN, "failed without a reason"))
    return tuple(faults)


def _gate_passed(history: RunHistory, gate: str) -> bool:
    if gate == "locks":
        # Taken once, perhaps after waiting, and held through every round.
        return any(report.verdict == "PASS" for report in history.gates if report.gate == gate)
    if gate == "approval":
        # Given before the work, perhaps, and kept through every round.
        granted = all(asked.status in {"approved", "granted"} for asked in approvals_required(history.run))
        approved = any(report.verdict == "PASS" for report in history.gates if report.gate == gate)
        return approved and (granted or history.run.status == "SUCCESS")
    judged = [report for report in history.decisive if report.gate == gate]
    return bool(judged) and all(report.verdict == "PASS" for report in judged)


def _done_evidence(history: RunHistory) -> DoneEvidence:
    run, contract = history.run, history.run.contract
    command = verify_command(contract) if contract else ""
    if run.tests is None:
        return DoneEvidence(
            verify_command=command,
            verify_exit_code=None,
            verify_stdout="",
            verify_stderr=failure_reason(history) or "no tests were run",
            artefacts=(layout.PATCH,),
        )
    failed = [each for each in _final(history) if each[0] != 0]
    return DoneEvidence(
        verify_command=command,
        verify_exit_code=failed[0][0] if failed else 0,
        verify_stdout=layout.TEST_STDOUT,
        verify_stderr=layout.TEST_STDERR,
        artefacts=(layout.PATCH, layout.TEST_REPORT, layout.REVIEW_REPORT, layout.COMPLETION_REPORT),
    )


def _final(history: RunHistory) -> list[tuple[int, str]]:
    """Return exit code and name of the last run of every required command; a killed one with code 0 gives 1."""
    last: dict[str, int] = {}
    for command in history.run.tests.commands if history.run.tests else ():
        if command.must_pass:
            killed = command.timed_out or command.stopped
            last[command.name] = command.exit_code or (1 if killed else 0)
    return [(code, name) for name, code in last.items()]


def _ship(history: RunHistory) -> DoneShip:
    run, landed = history.run, history.run.landed
    repository = run.contract.repository if run.contract else None
    requested = repository is not None and repository.landing != "none"
    refused = any(report.gate == "landing" and report.verdict == "FAIL" for report in history.decisive)
    result: Literal["ok", "failed", "skipped"] = "ok" if landed and landed.ref else "failed" if refused else "skipped"
    return DoneShip(requested=requested, result=result, commit=(landed.commit or None) if landed else None)


# Seconds between two recorded times.
def seconds_between(first: str, last: str) -> float:
    """Seconds from one RFC 3339 timestamp to another; 0 where one is missing, is none, or they are the wrong way round."""
    try:
        return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
