"""Verdicts of the gates before an environment is made: scope, protected paths, contract, patch and allowlist need none.

An environment takes minutes and hundreds of MB, which a run that is refused for its paths does not need. The gates' own code
decides, with the policies that the run will have. Checks that are not possible here are left to the run. This step refuses
early, and permits nothing.
"""

from __future__ import annotations

from pathlib import Path

from gatewright.app.cli.dry_run import ChangeLocation, DryRunAnswer, ask_gates, read_contract
from gatewright.app.cli.run.change_source import PATCH
from gatewright.app.cli.run.request import Prepared, with_artifacts
from gatewright.contracts import GateReport
from gatewright.errors import DeniedError, GatewrightError
from gatewright.reasons import advice_for, family_of
from gatewright.tasks.inputs import reference
from gatewright.view.retry import retry_options
from gatewright.view.sentences import violation_lines
from gatewright.view.stages import refusal_stages, stage_text

#: Codes about artifacts, which are stored only when the run begins.
_OF_STORES = frozenset({"artifact_missing", "artifact_invalid"})


class EarlyRefusalError(DeniedError):
    """The gates refuse this run for any result of its commands; ``report`` is the first refusal."""

    def __init__(self, report: GateReport, allowed: tuple[str, ...] = ()) -> None:
        lines = "".join(f"\n  {line}" for line in violation_lines(report))
        super().__init__(f"refused before an environment was made: {report.summary}{lines}", code=report.violations[0].code)
        self.report = report
        self._allowed = allowed

    @property
    def lines(self) -> list[str]:
        """Return the refusal as the lines of a run."""
        advice = advice_for(self.reason)
        ends = ["Nothing landed. The run did not start."]
        ends += [f"Advice:   {advice}"] if advice and not retry_options(self.report) else []
        return [*map(stage_text, refusal_stages(self.report, self._allowed)), "", *ends]


def refuse_early(prepared: Prepared, policies: Path) -> None:
    """Check the request and its patch, if it is known, with the gates. Blocks.

    Raises:
        EarlyRefusalError: a gate refuses the run.
        MalformedError: no contract can be made of the request.
    """
    attached = dict(prepared.attachments)
    artifacts = tuple(reference(name, data) for name, data in prepared.attachments)
    request = with_artifacts(prepared.request, artifacts)
    patch = attached.get(PATCH) if request.executor is not None and request.executor.kind == "patch" else None
    location = ChangeLocation(request.repository.url, request.baseline_ref, patch=patch)
    try:
        answer = ask_gates(read_contract(request), location, policies=policies, judge_policy=True)
    except GatewrightError as error:
        if error.family == "infrastructure" or error.reason in _OF_STORES:
            return  # The run meets the same error, and reports it with more context.
        raise
    report = _refusal(answer)
    if report is not None:
        raise EarlyRefusalError(report, request.allowed_paths)


def _refusal(answer: DryRunAnswer) -> GateReport | None:
    """Return the first verdict against the change; a gate that could not judge refuses nothing here."""
    for report in answer.reports:
        codes = [violation.code for violation in report.violations]
        if report.verdict != "PASS" and codes and not any(family_of(c) == "infrastructure" or c in _OF_STORES for c in codes):
            return report
    return None
