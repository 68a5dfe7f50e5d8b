"""1. Every document is about this run: its id, its repository, its baseline, its order. 10. The signed statements agree."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatewright.contracts import TaskContract
from gatewright.evidence import layout
from gatewright.evidence.statement import Descriptor
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun, gate_file, verdicts
from gatewright.evidence.verification.reading import Reading
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.run.state import Run

SIGNED = "statements_contradict"


class _Verdict(msgspec.Struct, frozen=True, rename="camel"):
    verification_result: str = ""
    result: str = ""


class _Statement(msgspec.Struct, frozen=True):
    subject: tuple[Descriptor, ...]
    predicate: _Verdict


def check_signed(reading: Reading) -> Iterator[Contradiction]:
    """Check the statements.

    1. The verdict passes when the checks pass.
    2. It passes when the manifest reports success.
    3. Both have the same subjects.
    """
    try:
        verdict, checks = (read_json(reading.payloads[path], _Statement) for path in layout.ENVELOPES)
    except (KeyError, UnreadableDocumentError):
        # Step 2 reports missing or unreadable statements.
        return
    passed = verdict.predicate.verification_result == "PASSED"
    if passed != (checks.predicate.result in {"PASSED", "WARNED"}):  # 1
        words = f"the verdict is {verdict.predicate.verification_result}, the checks are {checks.predicate.result}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, words)
    manifest = reading.manifest
    if manifest is not None and passed != (manifest.status == "SUCCESS"):  # 2
        words = f"the verdict is {verdict.predicate.verification_result}, the manifest has {manifest.status}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.MANIFEST, words)
    if verdict.subject != checks.subject:  # 3
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, "they are about different things")


#: A document names another run.
RUN = "run_contradicts"
BASELINE = "baseline_contradicts"
ORDER = "order_contradicts"


def check_subjects(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check subjects.

    1. Run ids of all documents.
    2. The order is the submitted document.
    3. The baseline is the contract's.
    """
    run = replayed.run
    yield from _runs(replayed)  # 1
    yield from _check_submission(run)  # 2
    yield from _baseline(run)  # 3


def _runs(replayed: ReplayedRun) -> Iterator[Contradiction]:
    run, history = replayed.run, replayed.history
    named: list[tuple[str, str]] = [(gate_file(moment.gates, report), report.run_id) for moment, report in verdicts(replayed)]
    named += [(layout.task_result(task_id), result.run_id) for task_id, result in history.results.items()]
    named += [(layout.task_plan(task_id), plan.run_id) for task_id, plan in history.plans.items()]
    named += [(layout.review(task_id), review.run_id) for task_id, review in history.reviews.items()]
    named += [(layout.test(task_id), tests.run_id) for task_id, tests in history.tests.items()]
    named += [(path, contract.log_refs.run_id) for path, contract in _contracts(run)]
    named += [(layout.task_error(task_id), error.run_id) for task_id, error in history.errors.items() if error.run_id]
    for path, run_id in named:
        if run_id != run.run_id:
            yield Contradiction(RUN, path, layout.EVENTS, f"it is about {run_id}, the events are those of {run.run_id}")


def _contracts(run: Run) -> Iterator[tuple[str, TaskContract]]:
    if run.contract is not None:
        yield layout.CONTRACT, run.contract
    for task in run.tasks.values():
        if task.contract is not None:
            yield layout.task_contract(task.task_id), task.contract


def _check_submission(run: Run) -> Iterator[Contradiction]:
    accepted = run.accepted
    document, path = (
        (accepted.request, layout.REQUEST) if accepted.request is not None else (accepted.contract, layout.CONTRACT)
    )
    if document is None or (accepted.request is not None and accepted.contract is not None):
        yield Contradiction(ORDER, layout.EVENTS, layout.CONTRACT, "a run has one order: a request or a contract")
        return
    words = document.inputs.spec if isinstance(document, TaskContract) else document.request
    if document.task_type != accepted.task_type and run.tasks:
        yield Contradiction(
            ORDER, layout.EVENTS, path, f"the run is a {accepted.task_type}, and its order a {document.task_type}"
        )
    if accepted.user_request != words:
        yield Contradiction(ORDER, layout.MANIFEST, path, "the words that ordered the run are not those of its document")
    place = document.repository.url if document.repository is not None else ""
    if accepted.repository_url != place:
        yield Contradiction(
            ORDER, layout.META, path, f"the run was about {accepted.repository_url}, its order is about {place}"
        )
    if accepted.contract is not None and run.contract != accepted.contract:
        yield Contradiction(ORDER, layout.CONTRACT, layout.EVENTS, "it is not the contract that was submitted")


def _baseline(run: Run) -> Iterator[Contradiction]:
    commit = run.accepted.baseline_commit
    if not commit:
        return
    if run.request is not None and run.request.baseline_ref != commit:
        words = f"the request was pinned to {run.request.baseline_ref}, the run to {commit}"
        yield Contradiction(BASELINE, layout.GIT_BASELINE, layout.REQUEST, words)
    for path, contract in _contracts(run):
        if contract.rollback.baseline_ref != commit:
            words = f"the contract starts from {contract.rollback.baseline_ref}, the run from {commit}"
            yield Contradiction(BASELINE, layout.GIT_BASELINE, path, words)
