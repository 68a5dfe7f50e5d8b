"""What the commands of a failed run printed: which of it there is to see, where it lies, and its last lines for people.

The output is the repository's own: it is cut, and every character that does not simply print is written as an escape.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatewright.contracts.reports import TestCommand, TestReport
from gatewright.errors import DeniedError, GatewrightError
from gatewright.evidence import layout
from gatewright.git.tracked import is_tracked
from gatewright.run.state import Run
from gatewright.view.run_view import OutputTail, RunView
from gatewright.view.safe_text import printable

#: Lines of one stream that are shown unasked, and characters of one line.
TAIL_LINES = 20
_WIDTH = 200
#: Streams that are shown unasked: those of the first commands that failed.
_MOST_STREAMS = 4
#: Bytes that are looked at for the last lines.
_TAIL_BYTES = 64 << 10

_COLOUR = re.compile("\x1b\\[[0-9;]{0,40}m")  # noqa: TID251 - linear: bounded, and one character begins it

Fetch = Callable[[str], Awaitable[bytes]]


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


# Modules that commands missed in packages of the repository, and that git has no file for: made by a build, mostly.
#: What Python says of a module that a package of the repository should have.
_MISSED = re.compile(r"No module named '([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){1,9})'")  # noqa: TID251 - linear: each part is bounded
_ROOTS = ("src", "", "lib")


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
