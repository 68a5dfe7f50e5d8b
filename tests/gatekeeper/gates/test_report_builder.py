"""What a gate report lists, and how much of it."""

from __future__ import annotations

from gatewright.contracts import GateReport
from gatewright.services.gatekeeper.gates.report_builder import MAX_REMARKS
from tests.gatekeeper.contexts import make_context

SECRET = "ghp_" + "a1B2" * 9


def report_with(*remarks: tuple[str, str, bytes | None, int | None]) -> GateReport:
    context = make_context("run-00112233445566778899", "diff")
    for rule, message, path, line in remarks:
        context.report.remark(rule, message, path, line)
    return context.close()


def test_remark_blocks_nothing_and_names_an_applied_rule() -> None:
    report = report_with(("line_ends", "All 3 lines changed from LF to CRLF.", b"src/a.py", 1))
    assert (report.verdict, report.code, report.summary) == ("PASS", "ok", "passed")
    assert [(each.rule, each.path, each.line) for each in report.remarks] == [("line_ends", "src/a.py", 1)]
    assert [rule.rule for rule in report.rules] == ["line_ends"]


def test_flood_of_remarks_is_counted() -> None:
    report = report_with(*[("line_ends", "Mixed.", b"%d.py" % number, None) for number in range(MAX_REMARKS + 7)])
    assert len(report.remarks) == MAX_REMARKS + 1
    assert report.remarks[-1].message == "7 more remarks are not listed."


def test_remark_does_not_quote_a_secret() -> None:
    report = report_with(("line_ends", f"The line {SECRET} is odd.", SECRET.encode(), None))
    (remark,) = report.remarks
    assert SECRET not in remark.message
    assert SECRET not in (remark.path or "")
