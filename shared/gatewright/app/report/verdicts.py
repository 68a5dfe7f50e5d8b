"""The verdicts of gates, reviewer and tests, for readers."""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gatewright.app.report.account import MAX_READ_BYTES, BundleAccount
from gatewright.app.report.limits import PageLimits, clip_text
from gatewright.app.report.markup import Child, fold, table, tag, with_class, with_spaces
from gatewright.contracts import EnvironmentInventory, GateReport, ReviewReport, TestReport, codec
from gatewright.contracts.completion import CompletionCheck
from gatewright.contracts.reports import Finding, Remark, TestCommand, Violation
from gatewright.environment_inventory.summary import summary_of, summary_words, unexplained
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.rules.reports.proof import in_words
from gatewright.rules.reports.tests import passed
from gatewright.view.safe_text import seconds_words, size_words, terminal_text
from gatewright.work_documents.remarks import attempts_words


def sign(*, passed: bool) -> Element:
    """Return a tick or a cross, distinct by shape as well as colour."""
    words, kind, shape = ("passed", "sign-good", "✓") if passed else ("failed", "sign-bad", "✗")
    return tag("span", {"class": kind, "role": "img", "aria-label": words}, shape)


def done(checks: Iterable[CompletionCheck], limits: PageLimits) -> Iterator[Element]:
    """The definition of done, rule by rule. A rule that was not judged is neither kept nor broken, and is drawn as neither."""
    rules = tuple(checks)
    reasons = {(check.verdict, check.detail) for check in rules}
    alike = len(reasons) == 1 and rules[0].verdict == "NOT_EVALUATED"
    if alike:
        yield with_class("p", "note", f"Not evaluated: {clip_text(rules[0].detail, limits.text)}.")
    details = ("" if alike else clip_text(_check_words(check), limits.text) for check in rules)
    yield table("rules", ((_mark(check), _code(check.rule), detail) for check, detail in zip(rules, details, strict=True)))


def done_words(checks: Iterable[CompletionCheck]) -> str:
    """Return how many rules were kept, broken, and not judged."""
    counts = Counter(check.verdict for check in checks)
    tally = ((counts["PASS"], "kept"), (counts["FAIL"], "broken"), (counts["NOT_EVALUATED"], "not evaluated"))
    return ", ".join(f"{count} {word}" for count, word in tally if count) or "no rules"


def _mark(check: CompletionCheck) -> Element:
    if check.verdict == "NOT_EVALUATED":
        return tag("span", {"class": "sign-none", "role": "img", "aria-label": "not evaluated"}, "\u2013")
    return sign(passed=check.verdict == "PASS")


def _check_words(check: CompletionCheck) -> str:
    return f"not evaluated: {check.detail}" if check.verdict == "NOT_EVALUATED" else check.detail


def gates(reports: tuple[GateReport, ...], run_id: str, limits: PageLimits) -> Iterator[Element]:
    """Yield every verdict in order, its rules folded below; failed ones are open."""
    if not reports:
        yield with_class("p", "note", "No gate has judged this run.")
        return
    for number, report in enumerate(reports[: limits.rows], 1):
        drawn = _gate(report, run_id, limits)
        # The order of verdicts never changes, so that this names one of them for good.
        drawn.set("id", f"gate-{number}")
        drawn.append(with_class("p", "meta", tag("a", {"href": f"#gate-{number}"}, f"Link to this verdict: gate-{number}")))
        yield drawn
    if len(reports) > limits.rows:
        yield with_class("p", "cut", f"{len(reports) - limits.rows} more verdicts are not shown; they are in reports/gates/.")


def _gate(report: GateReport, run_id: str, limits: PageLimits) -> Element:
    let_pass = report.verdict == "PASS"
    about = (report.task_id or "").removeprefix(f"{run_id}.")
    attempt = f"attempt {report.attempt}" if report.attempt > 1 else ""
    count = f"{len(report.rules)} rule{'s' if len(report.rules) != 1 else ''}" if report.rules else ""
    took = seconds_words(report.duration_ms / 1000) if report.duration_ms is not None else ""
    words = "" if let_pass else clip_text(report.summary.removeprefix(f"{report.code}: "), 300)
    summary: list[Child] = [
        sign(passed=let_pass),
        with_class("b", "name", report.gate),
        with_class("span", "about", " · ".join(part for part in (about, attempt) if part)),
        with_class("code", "reason", report.code) if not let_pass else None,
        with_class("span", "words", words) if words else None,
        with_class("span", "meta", " · ".join(part for part in (count, took) if part)),
    ]
    return fold(with_spaces(summary), _details(report, limits), is_open=not let_pass, kind="gate")


def _details(report: GateReport, limits: PageLimits) -> Iterator[Element]:
    if report.rules:
        rules = report.rules[: limits.rows]
        yield table(
            "rules", ((sign(passed=r.verdict == "PASS"), _code(r.rule), clip_text(r.detail, limits.text)) for r in rules)
        )
    if report.violations:
        broken = report.violations[: limits.rows]
        yield table("violations", ((_reason(v.code), _place_element(v), clip_text(v.detail, limits.text)) for v in broken))
    if report.remarks:
        remarks = report.remarks[: limits.rows]
        yield table("rules", ((_code(r.rule), _remark_place(r), clip_text(r.message, limits.text)) for r in remarks))
    if report.evidence:
        seen = table("seen", ((each.name, _code(each.digest)) for each in report.evidence[: limits.rows]))
        yield fold("Evidence", seen, kind="quiet")
    if not (report.rules or report.violations or report.evidence):
        yield with_class("p", "note", clip_text(report.summary, limits.text))


def _place_element(violation: Violation) -> Element:
    return with_class("code", "path", violation.path) if violation.path else _code(violation.rule)


def _remark_place(remark: Remark) -> Element | str:
    place = f"{remark.path or ''}{f':{remark.line}' if remark.line else ''}"
    return with_class("code", "path", place) if place else ""


def _code(text: str) -> Element:
    return tag("code", None, text)


def _reason(code: str) -> Element:
    return with_class("code", "reason", code)


def reviews(
    reports: dict[str, ReviewReport],
    run_id: str,
    limits: PageLimits,
    places: Mapping[str, str] | None = None,
    tree: str | None = None,
) -> Iterator[Element]:
    """Yield every attempt's review with its findings. ``places``: the page's lines of the change that makes ``tree``."""
    if not reports:
        yield with_class("p", "note", "No review took place.")
    for task_id, report in reports.items():
        yield with_class(
            "p",
            "sum",
            sign(passed=report.verdict == "PASS"),
            with_class("b", "name", report.verdict),
            f" by {report.reviewer.agent_id} ",
            with_class("span", "about", task_id.removeprefix(f"{run_id}.")),
        )
        yield tag("p", None, clip_text(report.summary, limits.text))
        known = places if places and tree and report.tree == tree else {}
        if report.findings:
            yield table("violations", (_finding(finding, limits, known) for finding in report.findings[: limits.rows]))


def _finding(finding: Finding, limits: PageLimits, places: Mapping[str, str]) -> tuple[Element | str, ...]:
    place = f"{finding.path or ''}{f':{finding.line}' if finding.line else ''}"
    found = places.get(f"patch:{finding.path}:{finding.line}")
    how = "blocking" if finding.blocking else "note"
    return (
        how,
        _code(finding.code),
        with_class("code", "path", tag("a", {"href": f"#{found}"}, place) if found else place),
        clip_text(finding.message, limits.text),
    )


@dataclass
class _Room:
    bytes: int


def tests(account: BundleAccount, reports: dict[str, TestReport], run_id: str, limits: PageLimits) -> Iterator[Element]:
    """Yield every attempt's commands with exit code, duration and output."""
    if not reports:
        yield with_class("p", "note", "No tests were run.")
    room = _Room(limits.outputs)
    for task_id, report in reports.items():
        if len(reports) > 1:
            yield tag("h3", None, task_id.removeprefix(f"{run_id}."))
        if report.failure:
            yield with_class("p", "cut", clip_text(report.failure, limits.text))
        for number, command in enumerate(report.commands[: limits.rows], 1):
            yield _command(account, command, task_id, number, room, limits)
        if report.sandbox:
            yield with_class("p", "note", f"Run by {report.runner.agent_id}; sandbox: {report.sandbox}.")
        yield from _environment(account, report, limits)


def _environment(account: BundleAccount, report: TestReport, limits: PageLimits) -> Iterator[Element]:
    """Yield the packages that commands saw, folded."""
    place = layout.artifact(report.inventory.sha256) if report.inventory is not None else ""
    data = account.excerpt(place, MAX_READ_BYTES).head
    with contextlib.suppress(MalformedError):
        inventory = codec.decode(data, EnvironmentInventory)
        rows = [(each.name, each.version, each.licence or "not measured") for tree in inventory.trees for each in tree.packages]
        named = [tag("li", None, f"{kind}: ", tag("code", None, line)) for kind, line in unexplained(inventory)]
        words = f"{len(rows) - limits.rows} more packages are in the inventory." if len(rows) > limits.rows else ""
        shown, summary = table("work", rows[: limits.rows]), summary_words(summary_of(inventory, data))
        yield fold(f"Environment: {summary}", tag("ul", None, named) if named else None, shown, words, kind="quiet")


def _command(
    account: BundleAccount, command: TestCommand, task_id: str, number: int, room: _Room, limits: PageLimits
) -> Element:
    good = passed(command)
    ended = "timed out" if command.timed_out else f"exit code {command.exit_code}"
    notes = [ended, seconds_words(command.duration_sec)]
    if not command.must_pass:
        notes.append("need not pass")
    if command.stopped:
        notes.append(f"killed at its limit of {command.stopped}")
    if command.run > 1:
        notes.append("second run")
    if words := attempts_words(command.attempts):
        notes.append(words)
    shown = in_words(command.proof) if command.proof is not None else ""
    summary: list[Child] = [
        sign(passed=good),
        with_class("b", "name", command.name),
        with_class("code", "argv", clip_text(shlex.join(command.cmd_argv), 500)),
        with_class("span", "meta", " · ".join(notes)),
    ]
    outputs = (_output(account, task_id, number, stream, room, limits) for stream in ("stdout", "stderr"))
    cut = with_class("p", "cut", "Output beyond the limit was thrown away when the command ran.") if command.truncated else None
    proof = with_class("p", "note", clip_text(shown, limits.text)) if shown else None
    return fold(
        with_spaces(summary), proof, (each for output in outputs for each in output), cut, is_open=not good, kind="gate"
    )


def _output(
    account: BundleAccount, task_id: str, number: int, stream: str, room: _Room, limits: PageLimits
) -> Iterator[Element]:
    path = layout.test_output(task_id, number, stream) if layout.is_safe(task_id) else ""
    found = account.excerpt(path, min(limits.output, max(room.bytes, 0)))
    room.bytes -= len(found.head) + len(found.tail)
    if not found.size:
        if path in account.files:
            yield with_class("p", "note", f"{stream}: nothing")
        return
    yield with_class("p", "stream", f"{stream} ", with_class("span", "meta", size_words(found.size)))
    if found.head:
        yield tag("pre", None, terminal_text(found.head))
    if found.left_out:
        yield with_class("p", "cut", f"{size_words(found.left_out)} left out here; the whole is in {path}.")
    if found.tail:
        yield tag("pre", None, terminal_text(found.tail))
