"""Step 6 of a verification: replays and projects the events again, and compares the result with the bundle.

Contract, tasks, results, reports, patch, landed commit, manifest and signature must all follow from the events; a file that
does not is reported. Files are compared by the digests in the manifest, which step 3 has checked against the bytes.
"""

from __future__ import annotations

import hashlib

import msgspec

from gatewright.contracts import EvidenceReport, RunManifest, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.file_plan import Content
from gatewright.evidence.projection.history import RunHistory, ended_history
from gatewright.evidence.projection.manifest import LedgerSpan, make_manifest
from gatewright.evidence.projection.projection import Projection, project
from gatewright.evidence.statement import make_statements
from gatewright.evidence.verification.reading import Reading, digest_of_all


def check_projection(reading: Reading, step: int) -> str:
    """6. Rebuild the bundle's files, manifest and statement from its events, and compare."""
    run, manifest = reading.run, reading.manifest
    if manifest is not None and manifest.layout != layout.VERSION:
        return f"the bundle has layout {manifest.layout or 1}, and only layout {layout.VERSION} can be made again"
    if run is None or manifest is None:
        return "there is no whole story: events or manifest cannot be read"
    if not run.ended or not run.finished_at:
        return "the run has not ended"
    try:
        history = ended_history(run, reading.records)
        projection = _project(reading, history, step)
        expected = make_manifest(
            history,
            reading.listed.values(),
            span=_span(manifest),
            signer=manifest.integrity.signer if manifest.integrity else "",
        )
    except MalformedError as error:
        reading.findings.malformed(step, error.reason, layout.EVENTS, error.message)
        return "the events make no bundle"
    reading.derived, reading.history = tuple(projection.files), history
    _compare_files(reading, projection, step)
    _compare_manifest(reading, manifest, expected, step)
    digests = {path: record.sha256 for path, record in reading.listed.items()}
    for path, statement in make_statements(history, reading.manifest_bytes, digests).items():
        if reading.payloads.get(path, statement) != statement:
            reading.findings.wrong(step, "statement_differs", path, "the signed statement does not follow from the events")
    return ""


def _span(manifest: RunManifest) -> LedgerSpan:
    """Return the position in the ledger as claimed by the manifest, since no event contains it."""
    integrity = manifest.integrity
    if integrity is None:
        return LedgerSpan(0, None, None)
    return LedgerSpan(integrity.transitions, integrity.ledger_first, integrity.ledger_last)


def _places(reading: Reading) -> dict[str, str]:
    """Return digest -> a listed file with it."""
    return {record.sha256: path for path, record in reading.listed.items()}


def _project(reading: Reading, history: RunHistory, step: int) -> Projection:
    places = _places(reading)
    for each in history.candidates:
        path = places.get(layout.digest_of(each.names) or "")
        names = reading.document(path, step) if path else None
        if names is not None:
            reading.names_of[each.names] = names
    candidate = history.run.candidate
    reading.names = names = reading.names_of.get(candidate.names, b"") if candidate else b""
    withheld = _withheld(reading, step)
    whole = project(history, names=names, withheld=withheld)
    lost = frozenset(
        uri
        for path, content in whole.files.items()
        if isinstance(content, tuple) and path not in reading.listed
        for uri in content
        if layout.digest_of(uri) not in places
    )
    if not lost:
        return whole
    message = f"{len(lost)} artifact(s) are not in the bundle, the first is {min(lost)}"
    reading.findings.incomplete(step, "evidence_lost", layout.EVIDENCE_REPORT, message)
    return project(history, names=names, lost=lost, withheld=withheld)


def _withheld(reading: Reading, step: int) -> frozenset[str]:
    """Return what the gatekeeper claims to have withheld as a secret; the report is then rebuilt and compared."""
    data = reading.document(layout.EVIDENCE_REPORT, step)
    try:
        uris = codec.decode(data, EvidenceReport).withheld if data is not None else ()
    except MalformedError:
        return frozenset()
    reading.notes += [f"{uri}: withheld, because the gatekeeper found what looks like a secret in it" for uri in uris]
    return frozenset(uris)


def _compare_files(reading: Reading, projection: Projection, step: int) -> None:
    findings, listed = reading.findings, reading.listed
    for path, content in projection.files.items():
        record = listed.get(path)
        if record is None:
            findings.incomplete(step, "story_missing", path, "the events speak of it, and the manifest does not list it")
        elif (digest := _expected_digest(reading, content)) is not None and digest != record.sha256:
            findings.wrong(step, "story_differs", path, "it does not follow from the events")
    for path in listed.keys() - projection.files.keys():
        findings.wrong(step, "story_unknown", path, "no event speaks of it")


def _expected_digest(reading: Reading, content: Content) -> str | None:
    """Return the digest that a file must have; None when its parts were found altered or missing."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    digests = [layout.digest_of(uri) or "" for uri in content]
    if len(digests) == 1:
        return digests[0]
    places = _places(reading)
    paths = [places.get(digest, "") for digest in digests]
    actual = [reading.facts[path].sha256 if path in reading.facts else "" for path in paths]
    if actual != digests:
        return None
    try:
        return digest_of_all(reading.root, paths)
    except OSError:
        return None


def _compare_manifest(reading: Reading, manifest: RunManifest, expected: RunManifest, step: int) -> None:
    if codec.encode(expected) == reading.manifest_bytes:
        return
    names = [
        field.name
        for field in msgspec.structs.fields(RunManifest)
        if getattr(manifest, field.name) != getattr(expected, field.name)
    ]
    message = f"does not follow from the events: {', '.join(names) or 'its form'}"
    reading.findings.wrong(step, "manifest_differs", layout.MANIFEST, message)
