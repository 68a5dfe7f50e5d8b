"""20. The receipt of a merge queue proves that the run landed as recorded: order, trees, commits and tests of the push."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.queue_receipt import Blob, Change
from gatewright.errors import CommandRefusedError, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import Reading
from gatewright.git.patches.files import FilePatch
from gatewright.git.patches.lines import files_of
from gatewright.queue.receipt import MOST_BYTES, read_receipt
from gatewright.rules.reports.receipt import LandingFacts, check_receipt
from gatewright.run import events as e
from gatewright.run.state import Run
from gatewright.sandbox.argv import parse_command

MISSING = "receipt_missing"
RECEIPT = "receipt_contradicts"


def check_queue_receipt(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check the receipt by hashing alone; see ``check_receipt``."""
    landed = replayed.run.landed
    if landed is None or (landed.mode != "queue" and not landed.receipt):
        return
    data = reading.document(layout.QUEUE_RECEIPT, step, limit=MOST_BYTES) if landed.receipt else None
    if landed.mode != "queue" or data is None:
        words = "a landing has a receipt when a merge queue did it, and only then"
        yield Contradiction(MISSING, layout.QUEUE_RECEIPT, layout.GIT_LANDED, words)
        return
    try:
        facts = _landing_facts(replayed.run, landed, reading.patch(step) or b"")
        faults = check_receipt(read_receipt(data), facts)
    except (MalformedError, CommandRefusedError) as error:
        yield Contradiction(RECEIPT, layout.QUEUE_RECEIPT, layout.GIT_LANDED, error.message)
        return
    for fault in faults:
        yield Contradiction(fault.code, layout.QUEUE_RECEIPT, layout.GIT_LANDED, f"{fault.pointer}: {fault.message}")


def _landing_facts(run: Run, landed: e.Landed, patch: bytes) -> LandingFacts:
    tests = run.contract.acceptance_tests if run.contract is not None else ()
    return LandingFacts(
        run_id=run.run_id,
        repository=run.accepted.repository_key,
        branch=landed.ref,
        commit=landed.commit,
        tree=landed.tree,
        previous=landed.previous or "",
        changes=tuple(_queue_change(file) for file in files_of(patch)),
        commands=frozenset(tuple(parse_command(test.cmd)) for test in tests if test.must_pass),
    )


def _queue_change(file: FilePatch) -> Change:
    path = file.new if file.new is not None else file.old or b""
    return Change(
        path=path.decode("utf-8", "backslashreplace"),
        old=_blob(file.old, file.old_mode, file.old_id),
        new=_blob(file.new, file.new_mode, file.new_id),
    )


def _blob(path: bytes | None, mode: str, object_id: bytes) -> Blob | None:
    return Blob(mode=mode, object_id=object_id.decode("ascii")) if path is not None else None
