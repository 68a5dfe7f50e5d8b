"""The remarks of a run: what people should know although it blocks nothing. Pure; every display renders what stands here.

They come from remarks of gates, findings of the reviewer that do not block, notes on what the tests proved, and questions
without an answer, or that no person was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from gatewright.contracts import GateReport, ReviewReport, SummonsAnswer, TaskContract, TaskResult, TestReport
from gatewright.contracts.vocabulary import NetworkAttempts
from gatewright.rules.reports.proof import proof_clauses
from gatewright.run.state import AskedSummons, Run

REVIEWER: Final = "reviewer"
TESTS: Final = "tests"
CRITIC: Final = "model critic"
TESTER: Final = "model tester"
UNANSWERED: Final = "unanswered question"
REFUSED: Final = "refused question"
WORKER: Final = "worker"
LEFT_OUT: Final = "left_out"
PROOF: Final = "test_proof"
NETWORK: Final = "network_attempt"
#: Paths that a remark names.
_NAMED: Final = 3


class RunRemark(msgspec.Struct, frozen=True):
    """``source`` is a gate (``diff gate``), ``reviewer``, ``tests``, ``unanswered question``, ``refused question``, ``worker``.

    ``rule`` is the rule of the gate, or the code of the finding. ``line`` counts from 1 in the changed file at ``path``.
    """

    source: str
    rule: str
    message: str
    path: str | None = None
    line: int | None = None


class Shown(NamedTuple):
    """The lines of the first remarks, and how many more there are."""

    lines: tuple[str, ...]
    more: int


def run_remarks(gates: Iterable[GateReport], run: Run) -> tuple[RunRemark, ...]:
    """Each remark once: of every gate's last attempt in ``gates``, and of what ``run`` has now."""
    reports = tuple(gates)
    last: dict[str, int] = {}
    for report in reports:
        last[report.gate] = max(report.attempt, last.get(report.gate, 0))
    found = [each for report in reports if report.attempt == last[report.gate] for each in gate_remarks(report)]
    found += review_remarks(run.review) if run.review is not None else ()
    found += test_remarks(run.tests, run.contract) if run.tests is not None else ()
    found += [each for task in run.workers() if task.result is not None for each in worker_remarks(task.result)]
    found += unanswered_remarks(run)
    found += [each for asked in run.summonses.values() for each in advice_remarks(asked)]
    return tuple(dict.fromkeys(found))


def unanswered_remarks(run: Run) -> Iterator[RunRemark]:
    """The questions that expired without an answer, or had none when the run ended, with what the run did instead."""
    for asked in run.approvals.values():
        request = asked.request
        if request.stage != "beside" or not (asked.status == "expired" or (asked.status == "pending" and run.ended)):
            continue
        if request.blocked is not None:
            words = f"{request.blocked.question} The run went on with its guess: {request.blocked.best_guess}"
        else:
            words = f"{request.why} Without an answer: {request.on_silence}"
        yield RunRemark(UNANSWERED, request.rule, words)


def advice_remarks(asked: AskedSummons) -> Iterator[RunRemark]:
    """What a model critic or tester found, or why it did not answer the gatekeeper."""
    answer = asked.answer
    if answer is None or asked.task.advice is None:
        return
    if answer.status != "ANSWERED":
        yield RunRemark(CRITIC if asked.task.advice == "critic" else TESTER, answer.code, f"no answer: {answer.message}")
    yield from critic_remarks(answer)
    for each in answer.missed:
        shown = [f"suggested test: {each.test.path}"] if each.test is not None else []
        shown += [f"suggested command: {each.command}"] if each.command is not None else []
        yield RunRemark(TESTER, "missed_case", "; ".join((each.case, *shown)), each.path, each.line)


def critic_remarks(answer: SummonsAnswer) -> Iterator[RunRemark]:
    """The findings of a model critic, after its recommendation."""
    if answer.critique is not None:
        yield RunRemark(CRITIC, answer.critique.recommendation, answer.answer)
        for each in answer.critique.findings:
            yield RunRemark(CRITIC, f"severity {each.severity}", each.message, each.path, each.line)


def worker_remarks(result: TaskResult) -> Iterator[RunRemark]:
    """The questions of a worker that no person was asked, and the files of tools that it left out of the change."""
    for each in result.questions_refused:
        yield RunRemark(REFUSED, each.code, each.message)
    if (left := result.left_out) is not None:
        named = ", ".join(left.paths[:_NAMED]) + (", …" if left.files > _NAMED else "")
        files = "1 file that a tool left is" if left.files == 1 else f"{left.files} files that tools left are"
        yield RunRemark(WORKER, LEFT_OUT, f"{files} not part of the change: {named}")
    if words := attempts_words(result.attempts):
        yield RunRemark(WORKER, NETWORK, f"{result.task_id}: {words}")


def gate_remarks(report: GateReport) -> Iterator[RunRemark]:
    """Yield the remarks of one gate."""
    for each in report.remarks:
        yield RunRemark(f"{report.gate} gate", each.rule, each.message, each.path, each.line)


def review_remarks(review: ReviewReport) -> Iterator[RunRemark]:
    """The findings that do not block; ``finding_lines`` has the others."""
    for each in review.findings:
        if not each.blocking:
            yield RunRemark(REVIEWER, each.code, each.message, each.path, each.line)


def test_remarks(tests: TestReport, contract: TaskContract | None) -> Iterator[RunRemark]:
    """Yield remarks on required commands whose last run is unproved or doubtful, and on all that tried to reach the network."""
    final = {command.name: command for command in tests.commands if command.must_pass}
    for name, command in final.items():
        if command.truncated:
            yield RunRemark(TESTS, PROOF, f"{name}: its output exceeds the limit of output; the rest was discarded")
        for clause in proof_clauses(command.proof, contract) if command.proof is not None else ():
            if clause.doubtful:
                yield RunRemark(TESTS, PROOF, f"{name}: {clause.words}")
    for command in tests.commands:
        if words := attempts_words(command.attempts):
            yield RunRemark(TESTS, NETWORK, f"{command.name}: {words}")


def attempts_words(attempts: NetworkAttempts | None) -> str:
    """``tried to reach the network 3 times (IPv4)``; empty for none, or if they were not counted."""
    counts = {"IPv4": attempts.ipv4, "IPv6": attempts.ipv6} if attempts is not None else {}
    total = sum(counts.values())
    kinds = " and ".join(kind for kind, count in counts.items() if count)
    return f"tried to reach the network {total} {'time' if total == 1 else 'times'} ({kinds})" if total else ""


def remark_line(remark: RunRemark) -> str:
    """``source: path:line: rule: message`` on one line."""
    place = "".join((remark.path or "", f":{remark.line}" if remark.line else ""))
    rule = "" if remark.rule == PROOF else f"{remark.rule}: "
    return " ".join(f"{remark.source}: {place + ': ' if place else ''}{rule}{remark.message}".split())


def first_lines(remarks: Iterable[RunRemark], most: int) -> Shown:
    """The lines of the first ``most`` remarks, and how many are left out."""
    lines = tuple(map(remark_line, remarks))
    return Shown(lines[:most], max(0, len(lines) - most))
