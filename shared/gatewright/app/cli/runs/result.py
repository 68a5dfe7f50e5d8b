"""The end of a run: the document for programs, the closing lines for people, and the output of its commands.

The output comes from the repository. It is cut, and every unprintable character is escaped.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gatewright.budgets import amount_words
from gatewright.contracts import EvidenceBundle, codec
from gatewright.contracts.reports import Plan, TestCommand, TestReport
from gatewright.ecosystems.failure_classes import FailureClass
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.evidence import layout
from gatewright.git.tracked import is_tracked
from gatewright.ledger.expiry import expired_words
from gatewright.order_artifacts.hidden_acceptance import FAILED
from gatewright.reasons import Family, RetryOffer, advice_for, offers_for
from gatewright.research.findings import FINDINGS
from gatewright.rules.reports.tests import failure_class, final_runs, passed
from gatewright.run.history import FollowedRun
from gatewright.run.spending import spending_of
from gatewright.run.state import Run
from gatewright.view.retry import retry_label, retry_line, retry_options
from gatewright.view.run_view import FileChange, OutputTail, RunView
from gatewright.view.safe_text import hang, printable
from gatewright.view.stages import MARGIN
from gatewright.work_documents.remarks import RunRemark, run_remarks

#: Maximum changed files to list.
MOST_FILES = 10
#: Maximum lines of a stream that are shown by default, and characters of a line.
TAIL_LINES = 20
_WIDTH = 200
#: Maximum streams that are shown by default: those of the first commands that failed.
_MOST_STREAMS = 4
#: Bytes to read for the last lines.
_TAIL_BYTES = 64 << 10
_COLOUR = re.compile("\x1b\\[[0-9;]{0,40}m")  # noqa: TID251 - linear: bounded, and one character begins it
Fetch = Callable[[str], Awaitable[bytes]]
# Modules that commands missed in packages of the repository, and that git does not track: mostly made by a build.
#: Python's message about a module that a package of the repository should have.
_MISSED = re.compile(r"No module named '([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){1,9})'")  # noqa: TID251 - linear: each part is bounded
_ROOTS = ("src", "", "lib")


class FailureResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a run did not succeed. ``family``: family of the code (docs/reasons.md), which decides the exit code.

    ``failure_class``: what the first failed acceptance command checks.
    """

    code: str
    message: str
    family: Family
    failure_class: FailureClass | None = None


class RunResult(msgspec.Struct, frozen=True):
    """The last line of ``run --json``. ``status``: SUCCESS, FAILED, ABORTED or RUNNING; ERROR if no run began.

    ``retry_with``: options to add to the same command, which allow what was refused, if its reason offers that. ``remarks``
    block nothing.
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
    kind: str = "change"
    findings: EvidenceBundle | None = None


def result_of(view: RunView) -> RunResult:
    """Return the result of a run so far. ``branch`` is without ``refs/heads/``; ``tree`` is the landed or last composed one."""
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
        kind=run.kind.name,
        findings=view.findings,
    )


def _retry_with(view: RunView) -> tuple[str, ...]:
    """Return the options to add to the same command, if the failure's reason offers any (``RetryOffer``)."""
    offers = offers_for(view.run.failure.code) if view.run.failure is not None else frozenset()
    if RetryOffer.PROPOSAL in offers and view.proposed:
        return view.proposed
    if RetryOffer.PROVIDE in offers and view.provide:
        return view.provide
    return retry_options(view.failing_gate)


def failure_of(past: FollowedRun) -> FailureResult | None:
    """Return why a run did not succeed; None if it did, or is open."""
    failure, family = past.run.failure, past.failure_family
    if failure is None or family is None:
        return None
    commands = past.run.tests.commands if past.run.tests is not None and failure.code in {"tests_failed", FAILED} else ()
    failed = (failure_class(each) for each in final_runs(commands) if each.must_pass and not passed(each))
    return FailureResult(failure.code, failure.message, family, next(failed, None))


def refused_result(error: GatewrightError, retry_with: tuple[str, ...] = ()) -> RunResult:
    """Return the result of a run that never began; its message lists every fault."""
    faults = error.faults if isinstance(error, MalformedError) else ()
    message = "; ".join((error.message, *(f"{fault.pointer}: {fault.message}" for fault in faults)))
    failure = FailureResult(error.reason, message, error.family)
    return RunResult(None, "ERROR", None, None, None, None, 0.0, failure, retry_with)


def closing_words(view: RunView, command: Sequence[str] = (), *, evidence: str = "", width: int | None = None) -> list[str]:
    """Format the closing lines of a run: changed files, verdict, one next step and the evidence.

    Prose is wrapped at ``width``. Commands to paste and output keep their lines.

    Args:
        command: the one that started the run, where known.
        evidence: the one that shows the evidence.
    """
    result, run = result_of(view), view.run
    words = [*change_lines(view.changes), *(plan_lines(run.plan) if run.plan is not None and not run.kind.lands else ())]
    words += finding_lines(view.findings) if view.findings is not None else []
    if run.expired is not None:
        words.append(f"run_expired: {printable(expired_words(run))}")
    if result.failure is not None:
        words += _failure_details(view, result.failure)
    words += [*([""] if words else []), _verdict_words(view, result)]
    if (step := _next_step(view, result, command)) is not None:
        words.append(hang(step, width, 10) if width is not None and step.startswith("Advice") else step)
    if run.ended:
        words.append(
            f"Evidence: {evidence or f'gatewright show {run.run_id}'}{' --log' if view.tails and not evidence else ''}"
        )
    return words


def change_lines(changes: Sequence[FileChange]) -> list[str]:
    """Format the first changed files with their added and removed lines."""
    margin, width = " " * MARGIN, max((len(each.name) for each in changes[:MOST_FILES]), default=0)
    lines = [
        f"{margin}{each.name:<{width}}  {'' if each.added is None else f'+{each.added} -{each.removed}'}".rstrip()
        for each in changes[:MOST_FILES]
    ]
    more = len(changes) - MOST_FILES
    return [*lines, f"{margin}and {more} more"] if more > 0 else lines


def plan_lines(plan: Plan) -> list[str]:
    """Format the shards of a plan by batch, each with its paths."""
    paths = {shard.task_id: ", ".join(shard.allowed_paths) for shard in plan.contracts}
    return [
        f"{' ' * MARGIN}batch {number}: {printable(task_id.rpartition('.')[2])}  {printable(paths.get(task_id, ''))}"
        for number, batch in enumerate(plan.batches, 1)
        for task_id in batch
    ]


def finding_lines(findings: EvidenceBundle) -> list[str]:
    """Format the claims of a search with their quotes, and its limitations."""
    addresses = {source.name: source.uri for source in findings.sources}
    lines = []
    for number, claim in enumerate(findings.claims, 1):
        lines.append(f"{number}. {printable(claim.claim)}")
        lines += [f'   "{printable(each.text)}"  {printable(addresses.get(each.source, ""))}' for each in claim.quotes]
    return [*lines, *(f"Open: {printable(each)}" for each in findings.limitations)]


def _verdict_words(view: RunView, result: RunResult) -> str:
    """Format the verdict: ``Landed in 2.5 s, 1,200 tokens, 0.04 USD.``"""
    spent = spending_of(view.run)
    amounts = ((spent.tokens, "tokens"), (round(spent.cost_usd, 4), "USD"))
    used = [amount_words(amount, unit, least=bool(spent.least)) for amount, unit in amounts if amount]
    time = ", ".join([f"{result.duration_sec:.1f} s", *used])
    match view.run.status:
        case "SUCCESS" if not view.run.kind.lands:
            return f"{view.run.kind.success.capitalize()} in {time}."
        case "SUCCESS":
            return f"Landed in {time}." if result.commit else f"Passed in {time}. The run was audit only: nothing to land."
        case "FAILED" | "ABORTED":
            nothing = "Nothing landed. " if view.run.kind.lands else ""
            return f"{nothing}{view.run.status.capitalize()} after {time}."
        case _:
            return f"Not finished after {time}. The run continues while the system runs."


def _failure_details(view: RunView, failure: FailureResult) -> list[str]:
    """Format the output of failed commands, and the files that they missed."""
    words = [line for tail in view.tails for line in tail_lines(tail)]
    for path in view.unprovided if RetryOffer.PROVIDE in offers_for(failure.code) else ():
        place = printable(path)
        made = "your checkout has one:" if path in view.provide else "if a build makes it, make it, and"
        words.append(f"  missing   {place}: git has no such file; {made} add --provide {shlex.quote(place)}")
    return words


def _next_step(view: RunView, result: RunResult, command: Sequence[str]) -> str | None:
    run = view.run
    if result.retry_with:
        whole = bool(command) or RetryOffer.AGAIN in result.retry_with
        again = ("" if whole else "the same command and ") + printable(retry_line(command, result.retry_with))
        return f"{retry_label(result.retry_with)}: {again}"
    if result.failure is not None:
        advice = advice_for(result.failure.code, run.run_id)
        # A failure of this host has advice.
        return f"Advice:   {advice}" if advice and advice not in result.failure.message else None
    if not run.ended:
        return f"Next:     gatewright watch {run.run_id}"
    if run.kind.result:
        return f"Next:     gatewright run REQUEST --input {run.run_id}"
    if not result.commit or not result.branch or run.landed is None:
        return None
    local = run.accepted.repository_url.startswith("/")
    where = f"git -C {shlex.quote(printable(run.accepted.repository_url))}" if local else "git"
    branch = shlex.quote(printable(result.branch))
    if local and run.landed.mode == "branch":
        return f"Next:     {where} merge {branch}"
    if run.landed.mode == "queue":
        return f"Next:     {where} show {result.commit[:12]}"
    return f"Next:     {where} diff {run.accepted.baseline_commit[:12]} {branch}"


@dataclass(frozen=True, slots=True)
class OutputStream:
    """One stream of one command: ``title`` for people, the artifact's URI, and its path in a bundle, if it has one."""

    title: str
    uri: str
    place: str | None
    failed: bool


def streams_of(run: Run) -> tuple[OutputStream, ...]:
    """Return every stream with output of every command: those of the workers, then those of the tests."""
    return (*_executor_streams(run), *_test_streams(run))


async def with_details(view: RunView, fetch: Fetch | None) -> RunView:
    """Return the view with changed files and, for a failed run, the last lines of failed commands, as far as readable."""
    if not view.run.ended:
        return view
    if view.run.kind.searches:
        return replace(view, findings=await read_findings(view, fetch))
    view = replace(view, changes=await asyncio.to_thread(_changes_of, view))
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


async def read_findings(view: RunView, fetch: Fetch | None) -> EvidenceBundle | None:
    """Return the findings of a search that succeeded, as far as readable; None without any."""
    results = [task.result for task in view.run.workers() if task.result is not None]
    uri = next((each.uri for result in results for each in result.artifacts if each.name == FINDINGS), "")
    if not uri or view.run.status != "SUCCESS":
        return None
    try:
        data = await read_stream(OutputStream("findings", uri, layout.EVIDENCE_BUNDLE, failed=False), view, fetch)
        return codec.decode(data, EvidenceBundle) if data is not None else None
    except GatewrightError:
        return None


def _changes_of(view: RunView) -> tuple[FileChange, ...]:
    """Return the files of the candidate, with line counts from a local bundle, else by the workers' reports."""
    if view.run.candidate is None:
        return ()
    patch = _from_bundle(Path(view.bundle) / layout.PATCH, None) if view.bundle else None
    if patch is not None:
        # Imported late: only an ended run displays its change.
        from gatewright.app.report.patch import split_patch

        return tuple(FileChange(printable(each.name), each.added, each.removed) for each in split_patch(patch))
    results = [task.result for task in view.run.workers() if task.result is not None and task.candidate in {0, view.run.chosen}]
    return tuple(FileChange(printable(name)) for name in sorted({name for each in results for name in each.git.changed_files}))


async def read_stream(stream: OutputStream, view: RunView, fetch: Fetch | None, *, last: int | None = None) -> bytes | None:
    """Return the bytes of a stream from a local bundle, else by ``fetch``; None without either.

    ``last``: only this many bytes at its end. Raises GatewrightError as ``fetch`` does.
    """
    if view.bundle and stream.place and (found := _from_bundle(Path(view.bundle) / stream.place, last)) is not None:
        return found
    if fetch is None:
        return None
    data = await fetch(stream.uri)
    return data[-last:] if last else data


def shown_lines(data: bytes) -> Iterator[str]:
    """Yield the lines of an output for a terminal: without colours; an overwritten line has its final text."""
    for line in _COLOUR.sub("", data.decode("utf-8", "replace").removesuffix("\n")).split("\n"):
        yield printable(line.rstrip("\r").rpartition("\r")[2].expandtabs())


def tail_lines(tail: OutputTail) -> list[str]:
    """Format a tail."""
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
    """Yield the streams of the last test report; with candidates and no choice yet, of each candidate's."""
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
    """Return the modules inside of packages that could not be imported, each once."""
    return tuple(dict.fromkeys(found[1] for tail in tails for line in tail.lines for found in _MISSED.finditer(line)))


def unprovided_files(repository: str, modules: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of ``modules`` in packages of the local ``repository`` where git tracks no file. Blocks."""
    top = Path(repository)
    return tuple(_places(top, modules)) if top.is_absolute() and top.is_dir() else ()


def provide_options(repository: str, places: Sequence[str]) -> tuple[str, ...]:
    """Return the options that provide those of ``places`` that exist in the checkout ``repository``. Blocks."""
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
