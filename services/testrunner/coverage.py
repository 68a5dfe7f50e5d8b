"""The coverage report of a command, compared with the lines that the change wrote.

A measure and no proof: code of the change runs in the command and could write the report. A child process reads it.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import ChangedCoverage
from gatewright.contracts.vocabulary import CoverageFormat, CoverageRequirement
from gatewright.ecosystems.subtree import read_text
from gatewright.errors import GatewrightError
from gatewright.foreign_documents import read_json
from gatewright.git.mirror_tree import list_tree
from gatewright.git.patches.lines import written_lines
from gatewright.patterns import BytesPattern, TextPattern
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.mutation.sampling import changed_sources, mutable_files
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace

#: What the child is started with, and its seconds and memory.
_FUNCTION: Final = "gatewright.services.testrunner.coverage:measure"
_READING: Final = ProcessBounds(30.0, 2 << 30)
#: Languages of which a format can be about; those of the command's framework for the others.
_LANGUAGES: Final = {"go": frozenset({"go"}), "coverage_json": frozenset({"python"})}
_MODULE: Final = TextPattern(r"(?m)^module[ \t]+[^\s]+")
#: A line without a letter or digit, or with nothing but a comment.
_NO_CODE: Final = BytesPattern(rb"[^0-9A-Za-z_\x80-\xff]*|\s*(?:# |//|/\*|\*[ /]).*")
#: Something that runs; else a source of types alone, which no report has.
_RUNS: Final = BytesPattern(rb"\b(?:func|fn|fun|function|def|class|static)\b|=>|\)\s*\{")
#: Files and spans of lines that are listed.
_MOST: Final = 100
#: A file's name in the report, its first and last line, and whether they were executed; the last before the first: none.
_Span = tuple[str, int, int, bool]


class MeasureRequest(msgspec.Struct, array_like=True):
    """A report and the change; ``contents`` are the changed sources by path."""

    file: str
    report: bytes
    format: CoverageFormat
    patch: bytes
    contents: dict[str, bytes]
    #: All files of the tree that have the name of a changed source.
    like_named: frozenset[str]
    #: Folders that names may be relative to, the workspace first; and those of Go's modules by name.
    folders: tuple[str, ...]
    modules: dict[str, str]


class _CoveredFile(msgspec.Struct):
    executed_lines: list[int]
    missing_lines: list[int]


_REQUESTS: Final = msgspec.msgpack.Decoder(MeasureRequest)
_ANSWERS: Final = msgspec.msgpack.Decoder(ChangedCoverage)


async def altered_files(candidate: RebuiltCandidate) -> list[str]:
    """Return the changed files with another content; a file that was only moved, to a name of its kind, is not one."""
    changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
    gone = {(change.old_id, posixpath.splitext(change.path)[1]) for change in changes if change.status == "D"}
    altered = [change for change in changes if change.status != "D" and change.new_id != change.old_id]
    paths = [change.path for change in altered if (change.new_id, posixpath.splitext(change.path)[1]) not in gone]
    return [path.decode("utf-8", "replace") for path in paths]


async def measure_coverage(
    place: CommandPlace, required: CoverageRequirement, before: tuple[int, ...], languages: frozenset[str]
) -> ChangedCoverage:
    """Return the coverage by a command in ``place`` for ``languages`` (empty: any); ``before``: see ``Workspace.written``."""
    try:
        report = await asyncio.to_thread(read_report, place.workspace, required.file, before)
        question = await _measure_request(place, required, report, languages)
        return _ANSWERS.decode(await BoundedJudge(_FUNCTION, _READING).ask(msgspec.msgpack.encode(question)))
    except (GatewrightError, OSError) as error:
        return ChangedCoverage(file=required.file, fault=cause_of(error))


async def _measure_request(
    place: CommandPlace, required: CoverageRequirement, report: bytes, languages: frozenset[str]
) -> MeasureRequest:
    if (kind := required.read_as) is None:
        raise OSError("its format is unknown: name it, or end the file in .xml, .info, .out or .json")
    candidate, tested = place.candidate, _LANGUAGES.get(kind, languages)
    contents = await mutable_files(candidate, tested)
    if len(contents) < len(await changed_sources(candidate, tested)):
        raise OSError("the changed sources are too many or too large to be measured")
    tree = await list_tree(candidate.mirror, candidate.tree)
    names = {posixpath.basename(path) for path in contents}
    top = str(place.workspace.path or place.workspace.path_inside)
    texts = {path[:-7]: await read_text(tree, path) for path in tree.paths if f"/{path}".endswith("/go.mod") and kind == "go"}
    return MeasureRequest(
        file=required.file,
        report=report,
        format=kind,
        patch=await candidate.mirror.diff(candidate.baseline_tree, candidate.tree),
        contents={path: contents[path] for path in contents.keys() & await altered_files(candidate)},
        like_named=frozenset(path for path in tree.paths if posixpath.basename(path) in names),
        folders=(top, posixpath.dirname(posixpath.join(top, required.file))),
        modules={line.split()[1].strip('"'): at for at, text in texts.items() for line in _MODULE.findall(text)[:1]},
    )


def measure(question: bytes) -> bytes:
    """In the child."""
    asked = _REQUESTS.decode(question)
    try:
        return msgspec.msgpack.encode(measured_by(asked))
    except (ValueError, LookupError, SyntaxError) as error:
        fault = f"it cannot be used as {asked.format}: {error}"[:500]
        return msgspec.msgpack.encode(ChangedCoverage(file=asked.file, fault=fault))


def measured_by(asked: MeasureRequest) -> ChangedCoverage:
    """Return the coverage of the written lines. ValueError, LookupError or SyntaxError if the report cannot be used.

    A changed source that the report does not name was not loaded: its lines are not executed.
    """
    known, written = _lines_by_path(asked), written_lines(asked.patch)
    executed: dict[str, set[int]] = {}
    missed: dict[str, set[int]] = {}
    for path in sorted(written.keys() & asked.contents):
        texts = asked.contents[path].split(b"\n")
        code = {line for line in written[path] if line <= len(texts) and not _NO_CODE.fullmatch(texts[line - 1])}
        if path in known:
            executed[path] = {line for line in code if known[path].get(line)}
            missed[path] = code.intersection(known[path]) - executed[path]
        elif code and (path.endswith(".py") or _RUNS.is_in(asked.contents[path])):
            missed[path] = code
    if missed and not executed:
        raise ValueError(f"it names none of the changed sources: {', '.join(list(missed)[:3])}")
    covered = sum(map(len, executed.values()))
    return ChangedCoverage(
        file=asked.file,
        lines=covered + sum(map(len, missed.values())),
        covered=covered,
        covered_files=tuple([path for path, lines in executed.items() if lines][:_MOST]),
        uncovered=tuple([span for path, lines in missed.items() for span in _spans(path, lines)][:_MOST]),
    )


def _lines_by_path(asked: MeasureRequest) -> dict[str, dict[int, bool]]:
    """Return, for each changed source that the report names, its executable lines and whether they were executed."""
    readers = {"cobertura": _read_cobertura, "lcov": _read_lcov, "go": _read_go, "coverage_json": _read_json_report}
    paths: dict[str, str | None] = {}
    found: dict[str, dict[int, bool]] = {}
    for name, first, last, executed in readers[asked.format](asked.report):
        path = paths[name] if name in paths else paths.setdefault(name, _path_of(name, asked))
        if path is None:
            continue
        length = asked.contents[path].count(b"\n") + 1
        if first < 0 or last > length:
            raise ValueError(f"it names line {last} of {path}, which has {length}")
        lines = found.setdefault(path, {})
        for line in range(first, last + 1):
            lines[line] = lines.get(line, False) or executed
    return found


def _path_of(name: str, asked: MeasureRequest) -> str | None:
    """Return the changed source that a report calls ``name``; None if it means another file."""
    *sources, name = name.split("\0")
    joined = [posixpath.join(folder, source, name) for folder in asked.folders for source in sources or ("",)]
    module = max((each for each in asked.modules if name.startswith(f"{each}/")), key=len, default=None)
    if module is not None:
        joined = [posixpath.join(asked.modules[module], name.removeprefix(f"{module}/"))]
    paths = {posixpath.normpath(each).removeprefix(f"{asked.folders[0]}/") for each in joined}
    possible = sorted(paths & asked.like_named)
    if len(possible) > 1 and not asked.contents.keys().isdisjoint(possible):
        raise ValueError(f"{name} may be any of {', '.join(possible[:3])}: have it name files from the repository's root")
    return possible[0] if possible and possible[0] in asked.contents else None


def _read_lcov(report: bytes) -> Iterator[_Span]:
    name = ""
    for line in report.split(b"\n"):
        if line.startswith(b"SF:"):
            name = line[3:].strip().decode("utf-8", "surrogateescape")
            yield name, 1, 0, False
        elif line.startswith(b"DA:"):
            number, hits = (int(each) for each in line[3:].split(b",")[:2])
            yield name, number, number, hits > 0


def _read_go(report: bytes) -> Iterator[_Span]:
    mode, *lines = report.split(b"\n")
    if not mode.startswith(b"mode: "):
        raise ValueError("the first line is no mode")
    for line in filter(None, lines):
        name, _, block = line.rpartition(b":")
        places, _, count = block.split(b" ")
        first, last = (int(each.partition(b".")[0]) for each in places.split(b","))
        yield name.decode("utf-8", "surrogateescape"), first, last, int(count) > 0


def _read_json_report(report: bytes) -> Iterator[_Span]:
    for name, file in read_json(read_json(report, dict[str, msgspec.Raw]).get("files", b"{}"), dict[str, _CoveredFile]).items():
        yield name, 1, 0, False
        yield from ((name, line, line, True) for line in file.executed_lines)
        yield from ((name, line, line, False) for line in file.missing_lines)


def _read_cobertura(report: bytes) -> Iterator[_Span]:
    """Yield the lines of classes. The folders of sources stand before a name, with a NUL between."""
    # Another encoding that could write the word otherwise has NULs, or no markup that expat accepts.
    if b"<!ENTITY" in report or b"\0" in report:
        raise ValueError("it declares an entity, or has NULs")
    top = ET.fromstring(report)  # noqa: S314 - without entities, in a child with limits
    sources = [(each.text or "").strip() for each in top.iter("source")]
    for each in top.iter("class"):
        name = "\0".join((*sources, each.attrib["filename"]))
        yield name, 1, 0, False
        for line in each.iter("line"):
            yield name, int(line.attrib["number"]), int(line.attrib["number"]), int(line.attrib["hits"]) > 0


def _spans(path: str, lines: Iterable[int]) -> Iterator[str]:
    """Yield neighbouring lines as ``path:first-last``."""
    for _, run in groupby(enumerate(sorted(lines)), key=lambda each: each[1] - each[0]):
        first, *others = (line for _, line in run)
        yield f"{path}:{first}-{others[-1]}" if others else f"{path}:{first}"


#: Bytes of a report.
MOST_BYTES: Final = 32 << 20


def read_report(workspace: Workspace, file: str, before: tuple[int, ...]) -> bytes:
    """Return the report. ``before``: what ``Workspace.written`` returned before the command. Blocks.

    Raises OSError: the command did not write it, or it is no regular file of a permitted size.
    """
    now = workspace.written(file)
    if not now or now == before:
        there = now or workspace.had(os.fsencode(file))
        raise OSError("the command left it as it was" if there else "the command did not write it")
    return workspace.read_written(file, MOST_BYTES)


def cause_of(error: GatewrightError | OSError) -> str:
    """Return for people why a report cannot be used."""
    return error.message if isinstance(error, GatewrightError) else error.strerror or str(error)
