"""The findings or the score that a command writes into a declared file, compared with the same command on the baseline.

A measure and no proof: code of the change runs in the command and could write the file. A child process reads it.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import AuditFinding, AuditResult
from gatewright.contracts.vocabulary import AUDIT_LEVELS, AuditFormat, AuditLevel, AuditRequirement
from gatewright.errors import GatewrightError
from gatewright.foreign_documents import read_json
from gatewright.sandbox import Sandbox
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.coverage import cause_of, read_report
from gatewright.services.testrunner.instrumented import build_earlier
from gatewright.workspace import Workspaces

#: What the child is started with, and its seconds and memory.
_FUNCTION: Final = "gatewright.services.testrunner.audits:read_audit"
_READING: Final = ProcessBounds(30.0, 2 << 30)
#: Findings of one file that are read, listed new ones, and characters of a message or name.
_MOST: Final = 100_000
_MOST_LISTED: Final = 100
_LONGEST: Final = 500
_OMITTED: Final = " ..."


class AuditRequest(msgspec.Struct, array_like=True):
    """A report of the candidate, and that of the baseline; None: it was not made. ``top``: the workspace as commands see it."""

    requirement: AuditRequirement
    report: bytes
    before: bytes | None
    top: str


class _Location(msgspec.Struct):
    uri: str = ""


class _Region(msgspec.Struct):
    startLine: int = 0  # noqa: N815 - SARIF's name


class _Physical(msgspec.Struct):
    artifactLocation: _Location = msgspec.field(default_factory=_Location)  # noqa: N815
    region: _Region = msgspec.field(default_factory=_Region)


class _SarifLocation(msgspec.Struct):
    physicalLocation: _Physical = msgspec.field(default_factory=_Physical)  # noqa: N815


class _Message(msgspec.Struct):
    text: str = ""


class _SarifResult(msgspec.Struct):
    """SARIF 2.1.0, section 3.27."""

    ruleId: str = ""  # noqa: N815
    level: str = "warning"
    kind: str = "fail"
    message: _Message = msgspec.field(default_factory=_Message)
    locations: list[_SarifLocation] = []
    partialFingerprints: dict[str, str] = {}  # noqa: N815
    suppressions: list[Any] | None = None


class _SarifRun(msgspec.Struct):
    results: list[_SarifResult] | None = None


class _Sarif(msgspec.Struct):
    version: str
    runs: list[_SarifRun]


class _Score(msgspec.Struct):
    score: Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]


_REQUESTS: Final = msgspec.msgpack.Decoder(AuditRequest)
_ANSWERS: Final = msgspec.msgpack.Decoder(AuditResult)


async def measure_audit(
    argv: tuple[str, ...],
    place: CommandPlace,
    required: AuditRequirement,
    written_before: tuple[int, ...],
    sandbox: Sandbox,
    workspaces: Workspaces,
) -> AuditResult:
    """Return what ``argv``, which ran in ``place``, found; ``written_before``: see ``Workspace.written``.

    The command runs on the baseline too, if it found something on the candidate.

    Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
    """
    judge, top = BoundedJudge(_FUNCTION, _READING), str(place.workspace.path or place.workspace.path_inside)
    try:
        report = await asyncio.to_thread(read_report, place.workspace, required.file, written_before)
        found = await _judge(judge, AuditRequest(required, report, None, top))
    except (GatewrightError, OSError) as error:
        return AuditResult(file=required.file, fault=cause_of(error))
    if found.fault or not found.findings:
        return found
    return await _with_baseline(judge, argv, place, AuditRequest(required, report, None, top), sandbox, workspaces)


async def _with_baseline(
    judge: BoundedJudge,
    argv: tuple[str, ...],
    place: CommandPlace,
    asked: AuditRequest,
    sandbox: Sandbox,
    workspaces: Workspaces,
) -> AuditResult:
    candidate, file = place.candidate, asked.requirement.file
    async with workspaces.open(
        candidate.mirror, candidate.baseline, plain=not place.workspace.overlay, planted=place.provided, compiled=place.compiled
    ) as workspace:
        await build_earlier(place, workspace, sandbox)
        written = workspace.written(file)
        await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
        top = str(workspace.path or workspace.path_inside)
        try:
            before = await asyncio.to_thread(read_report, workspace, file, written)
            if top != asked.top:
                before = before.replace(top.encode(), asked.top.encode())
            return await _judge(judge, msgspec.structs.replace(asked, before=before))
        except (GatewrightError, OSError) as error:
            return AuditResult(file=file, fault=f"on the baseline: {cause_of(error)}")


async def _judge(judge: BoundedJudge, asked: AuditRequest) -> AuditResult:
    return _ANSWERS.decode(await judge.ask(msgspec.msgpack.encode(asked)))


def read_audit(question: bytes) -> bytes:
    """In the child."""
    asked = _REQUESTS.decode(question)
    try:
        return msgspec.msgpack.encode(audit_of(asked))
    except (ValueError, LookupError, SyntaxError) as error:
        fault = f"it cannot be used as {asked.requirement.read_as}: {error}"[:_LONGEST]
        return msgspec.msgpack.encode(AuditResult(file=asked.requirement.file, fault=fault))


def audit_of(asked: AuditRequest) -> AuditResult:
    """Return the score, or the findings with those that the baseline does not have. ValueError or SyntaxError: unusable."""
    required = asked.requirement
    if required.read_as == "score":
        score = read_json(asked.report, _Score).score
        if not math.isfinite(score):
            raise ValueError("the score is no number")
        return AuditResult(file=required.file, score=score)
    found = _findings(asked.report, required, asked.top)
    if asked.before is None:
        return AuditResult(file=required.file, findings=len(found))
    before = Counter(key for key, _ in _findings(asked.before, required, asked.top))
    new = []
    for key, finding in found:
        if before[key]:
            before[key] -= 1
        else:
            new.append(finding)
    count = len(found)
    return AuditResult(
        file=required.file,
        findings=count,
        findings_before=count - len(new) + before.total(),
        new_count=len(new),
        new=tuple(new[:_MOST_LISTED]),
    )


_Keyed = tuple[tuple[str, ...], AuditFinding]


def _findings(report: bytes, required: AuditRequirement, top: str) -> list[_Keyed]:
    """Return the findings of at least the required level, each with what identifies it on another tree: not its line."""
    readers: dict[AuditFormat, Any] = {"sarif": _read_sarif, "junit": _read_junit}
    least = AUDIT_LEVELS.index(required.level)
    found: Iterable[_Keyed] = readers[required.read_as or "sarif"](report, top)
    listed = [each for each in found if AUDIT_LEVELS.index(each[1].level) >= least]
    if len(listed) > _MOST:
        raise ValueError(f"it has more than {_MOST:,} findings")
    return listed


def _read_sarif(report: bytes, top: str) -> Iterator[_Keyed]:
    document = read_json(report, _Sarif)
    if not document.version.startswith("2."):
        raise ValueError(f"version {document.version[:20]!r} of SARIF")
    for run in document.runs:
        if run.results is None:
            raise ValueError("a run has no results: the tool did not end")
        for each in run.results:
            if each.kind != "fail" or each.suppressions:
                continue
            place = each.locations[0].physicalLocation if each.locations else _Physical()
            level: AuditLevel = next((level for level in AUDIT_LEVELS if level == each.level), "note")
            finding = AuditFinding(
                rule=_shorten(each.ruleId),
                level=level,
                message=_shorten(each.message.text),
                path=_path_inside(place.artifactLocation.uri, top),
                line=max(0, place.region.startLine),
            )
            prints = sorted(each.partialFingerprints.items()) or [("", each.message.text)]
            yield (finding.rule, finding.path, *(f"{name}={text}" for name, text in prints)), finding


def _read_junit(report: bytes, top: str) -> Iterator[_Keyed]:
    if b"<!DOCTYPE" in report or b"<!ENTITY" in report:
        raise ValueError("it has a document type")
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - a document type is refused above, in a bounded child
        fault = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if fault is None:
            continue
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        message = fault.get("message") or (fault.text or "").strip() or fault.tag
        finding = AuditFinding(
            rule=_shorten(name),
            level="error",
            message=_shorten(message),
            path=_path_inside(case.get("file") or "", top),
            line=int(case.get("line") or 0) if (case.get("line") or "0").isdecimal() else 0,
        )
        yield (finding.path, name), finding


def _path_inside(uri: str, top: str) -> str:
    """Return the path of a finding in the repository; empty if it has none there."""
    parts = urlsplit(uri)
    path = unquote(parts.path) if parts.scheme in {"", "file"} else ""
    path = posixpath.normpath(path.removeprefix(f"{top}/")) if path else ""
    return path if path and not path.startswith(("/", "..")) and path != "." and len(path) <= _LONGEST else ""


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - len(_OMITTED)] + _OMITTED
