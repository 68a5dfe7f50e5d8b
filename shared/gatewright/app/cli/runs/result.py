"""What a finished run comes to: the document for programs, and the closing words for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from gatewright.app.cli.runs.outputs import tail_lines
from gatewright.errors import GatewrightError, MalformedError
from gatewright.ledger.expiry import expired_words
from gatewright.order_form.words import in_options
from gatewright.reasons import Family, RetryOffer, advice_for, offers_for
from gatewright.run.history import FollowedRun
from gatewright.view.retry import retry_line, retry_options
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable
from gatewright.view.sentences import MOST_REMARKS, SIGNS, finding_lines, proof_lines, violation_lines
from gatewright.work_documents.remarks import RunRemark, first_lines, run_remarks

#: What a line of a remark begins with.
REMARK_MARGIN = f"  {SIGNS['warn']} remark  "


class FailureResult(msgspec.Struct, frozen=True):
    """Why a run did not succeed; ``family`` is what the code is about (docs/reasons.md), and makes the exit code."""

    code: str
    message: str
    family: Family


class RunResult(msgspec.Struct, frozen=True):
    """The last line of ``run --json``. ``status`` is SUCCESS, FAILED, ABORTED or RUNNING; ERROR where no run came to be.

    ``retry_with`` are options to add to the same command. They open what was refused, where its reason offers that.
    ``remarks`` block nothing.
    """

    run_id: str | None
    status: str
    bundle: str | None
    branch: str | None
    commit: str | None
    tree: str | None
    duration_sec: float
    failure: FailureResult | None
    retry_with: tuple[str, ...] = ()
    remarks: tuple[RunRemark, ...] = ()


def result_of(view: RunView) -> RunResult:
    """The result of a run as it stands; ``branch`` without ``refs/heads/``, ``tree`` the landed or last composed one."""
    run = view.run
    landed = run.landed
    tree = landed.tree if landed else run.candidate.tree if run.candidate else None
    return RunResult(
        run_id=run.run_id,
        status=run.status,
        bundle=view.bundle,
        branch=(landed.ref.removeprefix("refs/heads/") or None) if landed else None,
        commit=(landed.commit or None) if landed else None,
        tree=tree,
        duration_sec=round(view.seconds, 3),
        failure=failure_of(view),
        retry_with=_retry_with(view),
        remarks=run_remarks(view.gates, run),
    )


def _retry_with(view: RunView) -> tuple[str, ...]:
    """The options to add to the same command, as far as the reason of the failure offers any (``reasons.retries``)."""
    offers = offers_for(view.run.failure.code) if view.run.failure is not None else frozenset()
    if RetryOffer.PROPOSAL in offers and view.proposed:
        return view.proposed
    if RetryOffer.PROVIDE in offers and view.provide:
        return view.provide
    return retry_options(view.failing_gate)


def failure_of(past: FollowedRun) -> FailureResult | None:
    """Why a run did not succeed; None where it did, or goes on."""
    failure, family = past.run.failure, past.failure_family
    return FailureResult(failure.code, failure.message, family) if failure is not None and family is not None else None


def refused_result(error: GatewrightError, retry_with: tuple[str, ...] = ()) -> RunResult:
    """The result of a run that never came to be; the message tells every fault."""
    faults = error.faults if isinstance(error, MalformedError) else ()
    message = "; ".join((error.message, *(f"{fault.pointer}: {fault.message}" for fault in faults)))
    failure = FailureResult(error.reason, message, error.family)
    return RunResult(None, "ERROR", None, None, None, None, 0.0, failure, retry_with)


def closing_words(view: RunView, command: Sequence[str] = ()) -> list[str]:
    """The summary at the end of a run: what came out, where the evidence lies, what to do next.

    ``command`` is the one that began the run, where it is known.
    """
    result = result_of(view)
    words = [f"{result.status} in {result.duration_sec:.1f} s   {view.run.run_id}"]
    if not view.run.ended:
        words.append("  open      it has not ended; what was asked of it takes effect as soon as the system runs")
    if view.run.expired is not None:
        words.append(f"  expired   run_expired: {printable(expired_words(view.run))}")
    if result.failure is not None:
        words += _why(view, result, command)
    proofs = proof_lines(view.run.tests) if view.run.tests is not None else []
    words += [f"  {'' if number else 'tests':9} {printable(line)}" for number, line in enumerate(proofs)]
    words += remark_lines(result.remarks)
    if result.commit and result.branch:
        words.append(f"  landed    {printable(result.branch)} at {result.commit}")
    if result.bundle:
        words.append(f"  bundle    {printable(result.bundle)}")
    steps = _next_steps(view, result)
    return words + (["  next:", *(f"    {step}" for step in steps)] if steps else [])


def remark_lines(remarks: Sequence[RunRemark]) -> list[str]:
    """Each of the first remarks on a line of its own, with a mark; the last line counts the others."""
    shown = first_lines(remarks, MOST_REMARKS)
    lines = [*shown.lines, *([f"... and {shown.more} more; the JSON document lists all"] if shown.more else [])]
    return [f"{REMARK_MARGIN}{printable(line)}" for line in lines]


def _why(view: RunView, result: RunResult, command: Sequence[str]) -> list[str]:
    gate, failure = view.failing_gate, result.failure
    if failure is None:
        return []
    words = [f"  reason    {failure.code}" + (f" ({gate.gate} gate)" if gate else "")]
    broken = violation_lines(gate) if gate else []
    message = failure.message.removeprefix(f"{gate.gate} gate: ") if gate else failure.message
    words += [f"            {printable(line)}" for line in broken or in_options(message).splitlines()]
    if (gate.code if gate else failure.code) == "review_failed" and view.run.review is not None:
        words += [f"            {printable(line)}" for line in finding_lines(view.run.review)]
    words += [line for tail in view.tails for line in tail_lines(tail)]
    for path in view.unprovided if RetryOffer.PROVIDE in offers_for(failure.code) else ():
        place = printable(path)
        made = "your checkout has one:" if path in view.provide else "if a build makes it, make it, and"
        words.append(f"  missing   {place}: git has no such file; {made} add --provide {shlex.quote(place)}")
    words.append("  landed    nothing")
    advice = advice_for(failure.code, view.run.run_id)
    if advice and advice not in message:  # what the host says comes with its advice
        words.append(f"  advice    {advice}")
    if result.retry_with:
        line = retry_line(command, result.retry_with)
        words.append(f"  retry with: {'' if command else 'the same command and '}{printable(line)}")
    return words


def _next_steps(view: RunView, result: RunResult) -> list[str]:
    run_id = view.run.run_id
    steps = []
    if result.commit and result.branch:
        repository = shlex.quote(printable(view.run.accepted.repository_url))
        branch = shlex.quote(printable(result.branch))
        where = f"git -C {repository}" if view.run.accepted.repository_url.startswith("/") else "git"
        steps.append(f"{where} diff {view.run.accepted.baseline_commit[:12]} {branch}")
        if where != "git" and view.run.landed and view.run.landed.mode == "branch":
            steps.append(f"{where} switch {branch}")
    if result.bundle:
        steps.append(f"gatewright verify {run_id}")
    steps.append(f"gatewright show {run_id}{' --log' if view.tails else ''}")
    return steps
