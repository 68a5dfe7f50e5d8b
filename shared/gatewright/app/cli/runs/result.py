"""What a finished run comes to: the document for programs, the closing words for people, and what its commands printed.

The output is the repository's own: it is cut, and every character that does not simply print is written as an escape.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gatewright.contracts.reports import TestCommand, TestReport
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.evidence import layout
from gatewright.git.tracked import is_tracked
from gatewright.ledger.expiry import expired_words
from gatewright.order_form.words import in_options
from gatewright.reasons import Family, RetryOffer, advice_for, offers_for
from gatewright.run.history import FollowedRun
from gatewright.run.state import Run
from gatewright.view.retry import retry_line, retry_options
from gatewright.view.run_view import OutputTail, RunView
from gatewright.view.safe_text import printable
from gatewright.view.sentences import MOST_REMARKS, SIGNS, finding_lines, proof_lines, violation_lines
from gatewright.work_documents.remarks import RunRemark, first_lines, run_remarks

#: What a line of a remark begins with.
REMARK_MARGIN = f"  {SIGNS['warn']} remark  "
#: Lines of one stream that are shown unasked, and characters of one line.
TAIL_LINES = 20
_WIDTH = 200
#: Streams that are shown unasked: those of the first commands that failed.
_MOST_STREAMS = 4
#: Bytes that are looked at for the last lines.
_TAIL_BYTES = 64 << 10
_COLOUR = re.compile("\x1b\\[[0-9;]{0,40}m")  # noqa: TID251 - linear: bounded, and one character begins it
Fetch = Callable[[str], Awaitable[bytes]]
# Modules that commands missed in packages of the repository, and that git has no file for: made by a build, mostly.
#: What Python says of a module that a package of the repository should have.
_MISSED = re.compile(r"No module named '([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){1,9})'")  # noqa: TID251 - linear: each part is bounded
_ROOTS = ("src", "", "lib")


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


@dataclass(frozen=True, slots=True)
class OutputStream:
    """One stream of one command: ``title`` for people, the artifact's URI, and where a bundle keeps it, if it does."""

    title: str
    uri: str
    place: str | None
    failed: bool


def streams_of(run: Run) -> tuple[OutputStream, ...]:
    """Every stream of every command of the run that printed anything: the workers', then the tests'."""
    return (*_executor_streams(run), *_test_streams(run))


async def with_tails(view: RunView, fetch: Fetch | None) -> RunView:
    """The view with the last lines of what failed. What cannot be had (any more) is left out: it is an extra."""
    if view.run.status != "FAILED":
        return view
    wanted = [stream for stream in streams_of(view.run) if stream.failed][:_MOST_STREAMS]
    tails = []
    for stream in wanted:
        try:
            data = await read_stream(stream, view, fetch, last=_TAIL_BYTES)
        except GatewrightError:
            continue
        if data is not None and (tail := _tail(stream.title, data)).lines:
            tails.append(tail)
    missed = missed_modules(tails)
    repository = view.run.accepted.repository_url
    unprovided = await asyncio.to_thread(unprovided_files, repository, missed) if missed else ()
    provide = await asyncio.to_thread(provide_options, repository, unprovided)
    return replace(view, tails=tuple(tails), unprovided=unprovided, provide=provide)


async def read_stream(stream: OutputStream, view: RunView, fetch: Fetch | None, *, last: int | None = None) -> bytes | None:
    """The bytes of a stream (with ``last`` those at its end) from the bundle if it lies on this host, else by ``fetch``.

    None when there is neither. Raises GatewrightError as ``fetch`` does.
    """
    if view.bundle and stream.place and (found := _from_bundle(Path(view.bundle) / stream.place, last)) is not None:
        return found
    if fetch is None:
        return None
    data = await fetch(stream.uri)
    return data[-last:] if last else data


def shown_lines(data: bytes) -> Iterator[str]:
    """The lines of an output as a terminal may be given them: without colours, and a line that was drawn over as it ended."""
    for line in _COLOUR.sub("", data.decode("utf-8", "replace").removesuffix("\n")).split("\n"):
        yield printable(line.rstrip("\r").rpartition("\r")[2].expandtabs())


def tail_lines(tail: OutputTail) -> list[str]:
    """A tail for people."""
    return [f"  output    {tail.title}", *(["  │ ..."] if tail.cut else []), *(f"  │ {line}" for line in tail.lines)]


def _tail(title: str, data: bytes) -> OutputTail:
    lines = list(shown_lines(data))
    while lines and not lines[-1].strip():
        lines.pop()
    kept = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines[-TAIL_LINES:]]
    return OutputTail(title, tuple(kept), cut=len(lines) > TAIL_LINES or len(data) >= _TAIL_BYTES)


def _from_bundle(file: Path, last: int | None) -> bytes | None:
    try:
        with file.open("rb") as stream:
            if last:
                stream.seek(max(0, file.stat().st_size - last))
            return stream.read()
    except OSError:
        return None


def _test_streams(run: Run) -> Iterator[OutputStream]:
    """Of the last test report; where there are candidates and none is chosen, of that of each."""
    if run.tests is not None:
        yield from _streams_of_report(run.tests, "")
        return
    for number, state in sorted(run.candidates.items()):
        if state.tests is not None:
            yield from _streams_of_report(state.tests, f"candidate {number}: ")


def _streams_of_report(tests: TestReport, about: str) -> Iterator[OutputStream]:
    for number, command in enumerate(tests.commands, start=1):
        words = printable(f"{about}{command.name}: {' '.join(command.cmd_argv)} ({_ending(command)})")
        failed = command.must_pass and (command.exit_code != 0 or command.timed_out or bool(command.stopped))
        for name, uri in (("stdout", command.stdout), ("stderr", command.stderr)):
            if uri:
                place = layout.test_output(tests.task_id, number, name) if layout.is_safe(tests.task_id) else None
                yield OutputStream(f"{words}, {name}", uri, place, failed)


def _ending(command: TestCommand) -> str:
    if command.timed_out:
        return "timed out"
    return f"killed: {command.stopped}" if command.stopped else f"exit {command.exit_code}"


def _executor_streams(run: Run) -> Iterator[OutputStream]:
    for task in run.tasks.values():
        if task.role != "worker" or task.result is None:
            continue
        for artifact in task.result.artifacts:
            if artifact.name in ("stdout", "stderr"):
                title = printable(f"{task.task_id.removeprefix(run.run_id + '.')}: {artifact.name}")
                place = layout.result_artifact(task.task_id, artifact.name) if layout.is_safe(task.task_id) else None
                failed = task.result.status != "SUCCESS" and task.attempt == run.attempt
                yield OutputStream(title, artifact.uri, place, failed)


def missed_modules(tails: Sequence[OutputTail]) -> tuple[str, ...]:
    """Modules inside of packages that were asked for in vain, each once."""
    return tuple(dict.fromkeys(found[1] for tail in tails for line in tail.lines for found in _MISSED.finditer(line)))


def unprovided_files(repository: str, modules: Sequence[str]) -> tuple[str, ...]:
    """The places of such ``modules`` in packages of ``repository``, a folder of this host, where git tracks nothing. Blocks."""
    top = Path(repository)
    return tuple(_places(top, modules)) if top.is_absolute() and top.is_dir() else ()


def provide_options(repository: str, places: Sequence[str]) -> tuple[str, ...]:
    """The options that provide those of ``places`` that the checkout ``repository`` has. Blocks."""
    return tuple(word for place in places if (Path(repository) / place).is_file() for word in ("--provide", place))


def _places(top: Path, modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        package, _, name = module.replace(".", "/").rpartition("/")
        for root in _ROOTS:
            folder = f"{root}/{package}".lstrip("/")
            if (top / folder / "__init__.py").is_file():
                path = f"{folder}/{name}.py"
                if not _is_tracked(top, path):
                    yield path
                break


def _is_tracked(top: Path, path: str) -> bool:
    try:
        return is_tracked(top, path)
    except DeniedError:
        return True
