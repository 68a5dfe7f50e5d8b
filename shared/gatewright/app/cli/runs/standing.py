"""What the gatekeeper answers about a run, for people. Pure."""

from __future__ import annotations

from gatewright.contracts import RunStatus
from gatewright.contracts.run_status import TaskStanding
from gatewright.run.states import stage_name
from gatewright.view.safe_text import printable


def standing(status: RunStatus) -> list[str]:
    """Where the run stands, what is being done, what was refused, and where its evidence lies."""
    lines = [f"{status.run_id}   {status.status}   {stage_name(status.state)} since {printable(status.since)}"]
    lines.append(f"  publisher  {printable(status.publisher)}")
    if status.silent_since is not None and status.status == "RUNNING":
        lines.append(
            f"  silent since {printable(status.silent_since)}: no process says that it is at it; is there one for what is "
            "RUNNING below, and does it still move? A run that is silent for long can be ended with `gatewright abort`"
        )
    lines += [f"  {task.role:<10} {task.status}{_claim_words(task)}" for task in status.tasks if task.status == "RUNNING"]
    if status.waiting_for_locks and status.status == "RUNNING":
        lines.append("  waits for paths that another run holds")
    lines += [f"  ✘ {gate.gate} {printable(gate.code)}" for gate in status.gates if gate.verdict == "FAIL"]
    if status.code is not None:
        lines.append(f"  {printable(status.code)}: {printable(status.message or '')}")
    if status.landed is not None and status.landed.ref:
        lines.append(f"  landed     {printable(status.landed.commit)} on {printable(status.landed.ref)}")
    if status.bundle is not None:
        lines.append(
            f"  bundle     {printable(status.bundle.location)} (manifest sha256 {printable(status.bundle.manifest_sha256)})"
        )
    return lines


def _claim_words(task: TaskStanding) -> str:
    """What was claimed of a task last, and from when on that is missing."""
    words = []
    if task.claimed_at is not None:
        doing = f"{task.phase or 'working'}" + (f", last {task.activity}" if task.activity else "")
        doing += f", says process {task.process}" if task.process else ""
        words.append(f"claimed {printable(task.claimed_at)} ({doing})")
    if task.silent_since is not None:
        words.append(f"silent since {printable(task.silent_since)}")
    return "  " + ", ".join(words) if words else ""
