"""The verdicts of gates on the page of a run."""

from __future__ import annotations

from xml.etree.ElementTree import tostring

from gatewright.app.report.limits import PageLimits
from gatewright.app.report.verdicts import gates
from gatewright.contracts import GateReport
from gatewright.contracts.reports import Remark


def test_remarks_of_a_gate_that_passed_are_on_the_page() -> None:
    report = GateReport(
        run_id="run-1",
        gate="diff",
        verdict="PASS",
        code="ok",
        summary="passed",
        violations=(),
        evidence=(),
        evaluated_at="2026-01-02T00:00:00.000Z",
        remarks=(Remark(rule="line_ends", message="The line ends are <mixed>.", path="src/a.py", line=7),),
    )
    page = "".join(tostring(each, encoding="unicode") for each in gates((report,), "run-1", PageLimits()))
    for words in ("line_ends", "src/a.py:7", "The line ends are &lt;mixed&gt;."):
        assert words in page
