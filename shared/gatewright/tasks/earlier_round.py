"""What a round of the fix loop is given of the one before, as artifacts of its contract, and under which names.

Why it was refused always; of an executor that is asked anew also the patch that it made, and the state of its session, where it
left one. A first round has none: what its contract names so came from outside, and is not looked at.
"""

from __future__ import annotations

from typing import Final, Literal

from gatewright.artifacts import stored_digest
from gatewright.contracts import TaskContract, TaskResult
from gatewright.contracts.vocabulary import Artifact
from gatewright.executor_kinds import EXECUTOR_KINDS

Left = Literal["gate_report", "test_report", "review_report", "revision_order", "patch", "session"]
#: The artifact of a task's result that holds the session of an agent.
AGENT_SESSION: Final = "agent_session"
_REPLACED: Final = ("failed.patch.", "failed.session.")


def name_of(left: Left, attempt: int) -> str:
    """The name of what round ``attempt`` left."""
    return f"failed.{left}.a{attempt}"


def left_by(contract: TaskContract, left: Left) -> Artifact | None:
    """Return the artifact of the round before ``contract``; None without one."""
    wanted = name_of(left, contract.attempt - 1)
    found = [artifact for artifact in contract.inputs.artifacts if artifact.name == wanted]
    return found[-1] if found and contract.attempt > 1 else None


def handed_on(contract: TaskContract, result: TaskResult | None, evidence: Artifact) -> tuple[Artifact, ...]:
    """The artifacts of the round after ``contract``, which had this ``result`` and was refused because of ``evidence``."""
    given = tuple(artifact for artifact in contract.inputs.artifacts if not artifact.name.startswith(_REPLACED))
    executor = contract.executor
    if result is None or executor is None or not EXECUTOR_KINDS[executor.kind].asked_anew:
        return (*given, evidence)
    patch, session = result.git.patch, [artifact for artifact in result.artifacts if artifact.name == AGENT_SESSION]
    more = [Artifact(name=name_of("patch", contract.attempt), uri=patch, sha256=stored_digest(patch))] if patch else []
    more += [Artifact(name=name_of("session", contract.attempt), uri=each.uri, sha256=each.sha256) for each in session[:1]]
    return (*given, evidence, *more)
