"""Steps 4 and 5 of a verification: documents against their schemas, and the chain of events."""

from __future__ import annotations

from gatewright.contracts import OrchestratorEvent, WorkReport, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.verification.reading import Reading
from gatewright.ledger import chain
from gatewright.run.events import ABOUT_BUNDLES
from gatewright.run.evolve import evolve
from gatewright.run.state import Run


def check_schemas(reading: Reading, step: int) -> str:
    """4. Check every document with a schema. An invalid report of a worker, which is a claim, is only noted."""
    listed = reading.listed if reading.manifest else reading.shape.files
    for path in sorted(listed.keys() - layout.UNLISTED):
        kind = layout.kind_of(path)
        claim = kind is None and layout.is_work_report(path)
        if kind is None and not claim:
            continue
        data = reading.document(path, step)
        if data is None or (path == layout.CONTRACT and data == layout.NO_CONTRACT):
            # The events decide whether a contract is required (step 6).
            continue
        try:
            codec.decode(data, kind or WorkReport)
        except MalformedError as error:
            if claim:
                reading.notes.append(f"{path}: the worker's own words are {error.message}")
            else:
                reading.findings.malformed(step, "schema", path, error.message)
    return ""


def check_events(reading: Reading, step: int) -> str:
    """5. Check the events: canonical lines, an unbroken chain, a possible order, and the end that the manifest records."""
    findings = reading.findings
    data = reading.document(layout.EVENTS, step)
    if data is None:
        return "there are no events"
    try:
        records = _parse_events(data)
        seq, head = chain.check(records)
        run = _fold(records)
    except MalformedError as error:
        findings.malformed(step, error.reason, layout.EVENTS, error.message)
        return "the events cannot be followed to their end"
    except VerificationError as error:
        findings.wrong(step, error.reason, layout.EVENTS, error.message)
        return "the events cannot be followed to their end"
    reading.records, reading.run = records, run
    if not run.ended or not run.finished_at:
        findings.incomplete(step, "run_not_ended", layout.EVENTS, f"the events stop in state {run.state}")
    manifest = reading.manifest
    if manifest is None or manifest.integrity is None:
        return ""
    if (manifest.integrity.chain_length, manifest.integrity.chain_head) != (seq, head):
        findings.wrong(step, "chain_end", layout.EVENTS, "the chain does not end with the manifest's last hash")
    if manifest.run_id != run.run_id:
        findings.wrong(step, "other_run", layout.EVENTS, f"the events are those of {run.run_id}")
    if (manifest.status == "SUCCESS") != (run.status == "SUCCESS"):
        findings.wrong(step, "status", layout.MANIFEST, f"the events end as {run.status}")
    return ""


def _parse_events(data: bytes) -> tuple[OrchestratorEvent, ...]:
    *lines, rest = data.split(b"\n")
    if rest or not lines:
        raise MalformedError("the last line is not whole", code="event_torn")
    records = []
    for number, text in enumerate(lines, 1):
        try:
            record = codec.decode(text, OrchestratorEvent)
        except MalformedError as error:
            raise MalformedError(f"line {number}: {error.message}", code="event_malformed") from error
        if codec.encode(record) != text:
            raise MalformedError(f"line {number} is not in canonical form", code="event_malformed")
        if record.event_type in ABOUT_BUNDLES:
            raise MalformedError(f"line {number}: the seal describes the bundle and must not be part of it", code="bad_event")
        records.append(record)
    return tuple(records)


def _fold(records: tuple[OrchestratorEvent, ...]) -> Run:
    run = None
    for record in records:
        if run is not None and (record.run_id, record.trace_id) != (run.run_id, run.trace_id):
            raise MalformedError(f"event {record.seq} belongs to another run", code="bad_event")
        run = evolve(run, record)
    if run is None:
        raise MalformedError("there are no events", code="event_torn")
    return run
