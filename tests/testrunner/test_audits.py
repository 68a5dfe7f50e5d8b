"""Audits: findings that the baseline does not have, scores, forged and broken reports, and what the rules conclude."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.contracts import TestReport
from gatewright.contracts.reports import AuditFinding, AuditResult
from gatewright.contracts.vocabulary import AuditRequirement
from gatewright.rules.reports.audits import audit_in_words, broken_by_audits
from gatewright.rules.reports.proof_facts import broken_by_facts
from gatewright.rules.reports.tests import match_commands
from gatewright.services.testrunner.audits import AuditRequest, read_audit
from tests.ecosystems.suites import Suite, proof_of

SARIF = AuditRequirement(file="out.sarif")
JUNIT = AuditRequirement(file="out.xml")
SCORE = AuditRequirement(file="out.json", min_score=80)


def result(rule: str, path: str = "src/a.py", line: int = 3, **more: Any) -> dict[str, Any]:
    place = {"physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": line}}}
    return {"ruleId": rule, "level": "error", "message": {"text": f"{rule} is broken"}, "locations": [place]} | more


def sarif(*results: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {}, "results": results}]} | more).encode()


def audit(required: AuditRequirement, report: bytes, before: bytes | None = None) -> AuditResult:
    asked = AuditRequest(required, report, before, "/workspace")
    return msgspec.msgpack.decode(read_audit(msgspec.msgpack.encode(asked)), type=AuditResult)


def test_a_finding_that_only_moved_is_not_new() -> None:
    found = audit(SARIF, sarif(result("A1", line=9), result("B2")), sarif(result("A1"), result("C3")))
    assert (found.findings, found.findings_before, found.new_count) == (2, 2, 1)
    assert found.new == (AuditFinding(rule="B2", level="error", message="B2 is broken", path="src/a.py", line=3),)
    assert audit_in_words(found) == "audit: 2 findings, 2 on the baseline, 1 new: src/a.py:3: B2 B2 is broken"


def test_a_second_finding_of_one_kind_is_new() -> None:
    found = audit(SARIF, sarif(result("A1"), result("A1", line=9)), sarif(result("A1")))
    assert [each.line for each in found.new] == [9]


def test_fingerprints_of_the_tool_identify_a_finding() -> None:
    before = sarif(result("A1", partialFingerprints={"hash/v1": "x"}))
    assert (
        audit(SARIF, sarif(result("A1", message={"text": "reworded"}, partialFingerprints={"hash/v1": "x"})), before).new == ()
    )
    assert audit(SARIF, sarif(result("A1", partialFingerprints={"hash/v1": "y"})), before).new_count == 1


@pytest.mark.parametrize(
    "uri", ["file:///workspace/src/a.py", "/workspace/src/a.py", "./src/a.py", "src/b/../a.py", "src/%61.py"]
)
def test_spellings_of_one_path_are_one(uri: str) -> None:
    assert audit(SARIF, sarif(result("A1", uri)), sarif(result("A1"))).new == ()


@pytest.mark.parametrize("uri", ["/etc/passwd", "../x", "https://example.org/a.py", "a" * 600])
def test_a_path_outside_of_the_repository_is_not_named(uri: str) -> None:
    assert [each.path for each in audit(SARIF, sarif(result("A1", uri)), sarif()).new] == [""]


def test_only_findings_of_the_required_level_count() -> None:
    report = sarif(result("A1", level="note"), result("B2", level="warning"), result("C3", level="strange"))
    assert audit(SARIF, report).findings == 1
    assert audit(replace(SARIF, level="error"), report).findings == 0
    assert audit(replace(SARIF, level="note"), report).findings == 3


def test_suppressed_and_passed_results_are_no_findings() -> None:
    assert audit(SARIF, sarif(result("A1", suppressions=[{"kind": "inSource"}]), result("B2", kind="pass"))).findings == 0


def test_failures_of_junit_are_findings() -> None:
    report = b"""<testsuites><testsuite><testcase classname="a.B" name="one" file="src/a.py" line="7">
    <failure message="it broke"/></testcase><testcase name="two"/><testcase name="three"><error>no

    connection</error></testcase><testcase name="four"><skipped/></testcase></testsuite></testsuites>"""
    before = b'<testsuite><testcase name="three"><error/></testcase></testsuite>'
    found = audit(JUNIT, report, before)
    assert found.new == (AuditFinding(rule="a.B::one", level="error", message="it broke", path="src/a.py", line=7),)


def test_a_score_is_read() -> None:
    assert audit(SCORE, b'{"score": 87.5, "max": 100}') == AuditResult(file="out.json", score=87.5)


@pytest.mark.parametrize(
    ("required", "report"),
    [
        (SARIF, b""),
        (SARIF, b"[]"),
        (SARIF, b'{"version": "2.1.0"}'),
        (SARIF, b'{"version": "1.0", "runs": []}'),
        (SARIF, b'{"version": "2.1.0", "runs": [{}]}'),
        (SARIF, b'{"version": "2.1.0", "runs": [{"results": [{"ruleId": 7}]}]}'),
        (SARIF, b"[" * 100_000),
        (JUNIT, b"<testsuite>"),
        (JUNIT, b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>'),
        (SCORE, b'{"score": "87"}'),
        (SCORE, b'{"score": 1e999}'),
        (SCORE, b'{"score": NaN}'),
        (SCORE, b"{}"),
    ],
)
def test_a_broken_report_is_a_fault(required: AuditRequirement, report: bytes) -> None:
    assert audit(required, report).fault.startswith(f"it cannot be used as {required.read_as}")


def test_a_flood_of_findings_is_a_fault_and_long_texts_are_cut() -> None:
    many = sarif(*[{"ruleId": "A"}] * 100_001)
    assert "more than 100,000 findings" in audit(SARIF, many).fault
    (found,) = audit(SARIF, sarif(result("A" * 9_999, message={"text": "x\n\x1b" * 9_999})), sarif()).new
    assert max(len(found.rule), len(found.message)) <= 500
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("requirement", "fault"),
    [
        (AuditRequirement(file="out.txt"), "format is unknown"),
        (AuditRequirement(file="out.json"), "needs min_score"),
        (AuditRequirement(file="out.sarif", min_score=3), "needs min_score"),
        (AuditRequirement(file="out.json", min_score=3, max_new=4), "not scores"),
        (AuditRequirement(file="out.json", min_score=3, level="note"), "not scores"),
        (AuditRequirement(file="out.txt", format="score", min_score=3), ""),
        (AuditRequirement(file="out.json", format="sarif"), ""),
    ],
)
def test_limits_of_another_kind_are_a_fault(requirement: AuditRequirement, fault: str) -> None:
    assert fault in requirement.fault
    assert bool(fault) == bool(requirement.fault)


#: Finds each line with TODO, as a tool would; it fails if it finds any.
TOOL = b"""
import json, pathlib, sys
found = []
for path in sorted(pathlib.Path('src').rglob('*.py')):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if 'TODO' in line:
            place = {'artifactLocation': {'uri': str(path)}, 'region': {'startLine': number}}
            found.append({'ruleId': 'T1', 'message': {'text': line.strip()}, 'locations': [{'physicalLocation': place}]})
pathlib.Path('out.sarif').write_text(json.dumps({'version': '2.1.0', 'runs': [{'results': found}]}))
sys.exit(bool(found))
"""
FILES = {"src/a.py": b"# TODO old\n", "tool.py": TOOL}


async def audited(folder: Path, source: bytes, **more: Any) -> TestReport:
    suite = Suite(folder, FILES)
    options: dict[str, Any] = {"must_pass": False, "audit": SARIF} | more
    report = await suite.tested({"src/a.py": source}, "python tool.py", **options)
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    assert list(broken_by_facts(report, ordered, frozenset({b"src/a.py"}))) == []
    codes.extend((each.code, each.path) for each in broken_by_audits(ordered))
    return report


codes: list[tuple[str, bytes | None]] = []


@pytest.fixture(autouse=True)
def _no_codes() -> None:
    codes.clear()


async def test_old_findings_pass_although_the_command_fails(tmp_path: Path) -> None:
    report = await audited(tmp_path, b"x = 1\n# TODO old\n")
    assert proof_of(report).audit == AuditResult(file="out.sarif", findings=1, findings_before=1)
    assert codes == []


async def test_a_new_finding_is_refused_with_its_file(tmp_path: Path) -> None:
    await audited(tmp_path, b"# TODO old\n# TODO new\n")
    assert codes == [("audit_findings_new", None), ("audit_findings_new", b"src/a.py")]


async def test_as_many_new_findings_as_allowed_pass(tmp_path: Path) -> None:
    report = await audited(tmp_path, b"# TODO old\n# TODO new\n", audit=replace(SARIF, max_new=1))
    audit = proof_of(report).audit
    assert audit is not None
    assert [each.message for each in audit.new] == ["# TODO new"]
    assert codes == []


async def test_a_report_that_the_command_did_not_write_is_missing(tmp_path: Path) -> None:
    report = await audited(tmp_path, b"x = 1\n", audit=AuditRequirement(file="other.sarif"))
    audit = proof_of(report).audit
    assert audit is not None
    assert audit.fault == "the command did not write it"
    assert codes == [("audit_missing", None)]


@pytest.mark.parametrize(("score", "refused"), [(80, []), (79.9, [("audit_score_too_low", None)])])
async def test_a_score_below_the_limit_is_refused(tmp_path: Path, score: float, refused: list[tuple[str, None]]) -> None:
    suite = Suite(tmp_path, {"src/a.py": b"", "tool.py": b"", "score.py": b""})
    tool = f"import pathlib\npathlib.Path('out.json').write_text('{{\"score\": {score}}}')\n".encode()
    report = await suite.tested({"score.py": tool}, "python score.py", audit=SCORE)
    assert suite.contract is not None
    assert [(each.code, each.path) for each in broken_by_audits(match_commands(report, suite.contract)[0])] == refused


@pytest.mark.parametrize(
    "audit",
    [
        AuditResult(file="out.sarif", findings=1, findings_before=0, new_count=2),
        AuditResult(file="out.sarif", findings=3, findings_before=1, new_count=1),
        AuditResult(file="out.sarif", findings=3),
        AuditResult(file="out.sarif", findings=1, findings_before=1, score=3.0),
    ],
)
async def test_numbers_that_contradict_each_other_are_found(tmp_path: Path, audit: AuditResult) -> None:
    suite = Suite(tmp_path, FILES)
    report = await suite.tested({"src/a.py": b"x = 1\n"}, "python tool.py", audit=SARIF)
    (command,) = report.commands
    assert command.proof is not None
    forged = replace(report, commands=(replace(command, proof=replace(command.proof, audit=audit)),))
    assert suite.contract is not None
    found = broken_by_facts(forged, match_commands(forged, suite.contract)[0], frozenset({b"src/a.py"}))
    assert {each.code for each in found} == {"report_contradicts"}
