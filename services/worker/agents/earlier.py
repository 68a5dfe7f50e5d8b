"""What the round before left for this one: why it was refused, what it had changed, and the state of the agent's session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gatewright.artifacts import ArtifactPort
from gatewright.contracts import GateReport, ReviewReport, TaskContract, TestReport, codec
from gatewright.contracts.people.revision_orders import RevisionOrder
from gatewright.errors import ArtifactError, GitError, MalformedError, PatchError
from gatewright.git.mirror import Mirror
from gatewright.models.cassettes.measured import without_measures
from gatewright.rules.rounds import DIFF_OBJECTIVE, PEOPLE_OBJECTIVE, REVIEW_OBJECTIVE, TESTS_OBJECTIVE
from gatewright.tasks.earlier_round import left_by

#: Maximum characters of an earlier round's remains in a prompt.
_QUOTED: Final = 8_000
_VIOLATIONS: Final = 100


@dataclass(frozen=True, slots=True)
class EarlierRound:
    """``failed`` is why it was refused, in words; ``objective`` the one thing that this round is for.

    ``patch`` leads from the baseline to what it made, empty where that is not known; ``kept``: this round begins with it.
    """

    failed: str
    objective: str
    patch: bytes = b""
    kept: bool = False


async def earlier_round(contract: TaskContract, artifacts: ArtifactPort) -> EarlierRound | None:
    """The round before ``contract``, None for a first round. Raises BusError, and ArtifactError for evidence that is gone."""
    tests, review = left_by(contract, "test_report"), left_by(contract, "review_report")
    gate = left_by(contract, "gate_report")
    people = left_by(contract, "revision_order")
    try:
        if gate is not None:
            failed = _gate(codec.decode(await artifacts.get(gate.uri), GateReport))
            return EarlierRound(failed, DIFF_OBJECTIVE, await _patch(contract, artifacts))
        if tests is not None:
            failed = await _test_section(codec.decode(await artifacts.get(tests.uri), TestReport), artifacts)
            return EarlierRound(failed, TESTS_OBJECTIVE, await _patch(contract, artifacts))
        if review is not None:
            failed = _review(codec.decode(await artifacts.get(review.uri), ReviewReport))
            return EarlierRound(failed, REVIEW_OBJECTIVE, await _patch(contract, artifacts))
        if people is not None:
            order = codec.decode(await artifacts.get(people.uri), RevisionOrder)
            return EarlierRound(_people(order), PEOPLE_OBJECTIVE, await _patch(contract, artifacts))
    except MalformedError:
        return None
    return None


async def begin_at(mirror: Mirror, baseline: str, earlier: EarlierRound | None) -> tuple[str, EarlierRound | None]:
    """The tree that this round begins at: what the round before made, where that can be had, else the baseline's."""
    if earlier is None or not earlier.patch:
        return await mirror.tree_of(baseline), earlier
    try:
        return await mirror.apply(baseline, earlier.patch), replace(earlier, kept=True)
    except (PatchError, GitError):
        return await mirror.tree_of(baseline), earlier


async def _patch(contract: TaskContract, artifacts: ArtifactPort) -> bytes:
    left = left_by(contract, "patch")
    try:
        return await artifacts.get(left.uri) if left is not None else b""
    except (ArtifactError, MalformedError):
        return b""


def _gate(report: GateReport) -> str:
    lines = [f"The {report.gate} gate refused the change. Take back what it names, and keep the rest:"]
    named = ((f"{each.path}: " if each.path else "", each) for each in report.violations[:_VIOLATIONS])
    lines += [f"- {path}{each.detail} ({each.code})" for path, each in named]
    return "\n".join(lines)[:_QUOTED]


def _review(report: ReviewReport) -> str:
    lines = [f"The review said {report.verdict}: {report.summary}"]
    for finding in report.findings:
        where = f"{finding.path}:{finding.line or ''} " if finding.path else ""
        lines.append(f"- {'must be cured' if finding.blocking else 'note'}: {where}{finding.message} ({finding.code})")
    return "\n".join(lines)[:_QUOTED]


def _people(order: RevisionOrder) -> str:
    lines = ["People have refused the change."]
    for each in order.findings:
        scope = f" of {', '.join(each.scope)}" if each.scope else ""
        shown = f" (see {', '.join(each.evidence)})" if each.evidence else ""
        lines.append(f"- {each.person}{scope}: {each.words}{shown}")
    return "\n".join(lines)[:_QUOTED]


async def _test_section(report: TestReport, artifacts: ArtifactPort) -> str:
    parts = [f"The tests said {report.status}. {report.failure or ''}"]
    failed = [command for command in report.commands if command.exit_code != 0 or command.timed_out]
    for command in failed:
        parts.append(f"$ {' '.join(command.cmd_argv)} -> {'out of time' if command.timed_out else command.exit_code}")
        for uri in (command.stdout, command.stderr):
            try:
                output = (await artifacts.get(uri)).decode("utf-8", "replace") if uri else ""
            except (ArtifactError, MalformedError):
                continue
            # The end shows the failure. Equal failures give equal text: durations are left out.
            parts.append(without_measures(output[-_QUOTED // (2 * len(failed)) :]))
    return "\n".join(parts)[: 2 * _QUOTED]
