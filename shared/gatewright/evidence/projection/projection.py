"""Content of a bundle: a pure function of an ended run's events, so that a lost bundle can be rebuilt byte for byte.

``project`` lists every file and the source of its bytes: computed here, or artifacts named by digest. It uses no clock, no host
and no store. The manifest, which lists the files, and the signatures follow later (``manifest.py``, ``statement.py``).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from gatewright.contracts import GateReport, TestReport, codec
from gatewright.contracts.reports import EvidenceReport
from gatewright.contracts.vocabulary import Artifact
from gatewright.evidence import layout
from gatewright.evidence.projection import summary_reports as closing_reports
from gatewright.evidence.projection.completion import completion_report
from gatewright.evidence.projection.decisions import decisions_of
from gatewright.evidence.projection.file_plan import Content, FilePlan
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.names import name_list
from gatewright.evidence.projection.progress import progress_of
from gatewright.evidence.projection.provenance import meta
from gatewright.run import events as e


@dataclass(frozen=True, slots=True)
class Projection:
    """Every file of a bundle except the manifest and its signatures.

    ``files`` is sorted by path. ``essential`` are the gatekeeper's own artifacts: without them no bundle can be built.
    """

    files: Mapping[str, Content]
    essential: frozenset[str]

    def artifacts(self) -> frozenset[str]:
        """URIs of all artifacts that the files need."""
        return frozenset(uri for content in self.files.values() if isinstance(content, tuple) for uri in content)


def project(
    history: RunHistory, *, names: bytes = b"", lost: frozenset[str] = frozenset(), withheld: frozenset[str] = frozenset()
) -> Projection:
    """Return the files of the bundle of ``history``.

    Files that depend on a lost or withheld artifact are left out and listed in the evidence report.

    Args:
        history: the ended run.
        names: the candidate's changed paths, each terminated by a NUL; empty without a candidate.
        lost: URIs that the artifact store does not have.
        withheld: URIs of artifacts that contain a secret.

    Raises:
        MalformedError: an id cannot be a file name.
    """
    files = FilePlan(lost, withheld)
    _run_files(files, history, names)
    _findings_file(files, history)
    _task_files(files, history)
    _test_files(files, history)
    _consultation_files(files, history)
    _interrupted_files(files, history)
    for number, gate in enumerate(history.gates, 1):
        files.document(layout.gate_report(number, gate.gate, gate.task_id), gate)
    _approval_files(files, history)
    _summons_files(files, history)
    _artifact_files(files, history)
    status: Literal["ok", "fail"] = "fail" if files.missing else "ok"
    report = EvidenceReport(status=status, missing=tuple(files.missing), withheld=tuple(sorted(files.left_out)))
    files.document(layout.EVIDENCE_REPORT, report)
    candidate = history.run.candidate
    return Projection(files.finished(), frozenset({candidate.patch, candidate.names} - {""} if candidate else ()))


def events_file(history: RunHistory) -> bytes:
    """Return ``events.jsonl``: one event per line, canonical JSON."""
    return b"".join(codec.encode(record) + b"\n" for record in history.records)


def _run_files(files: FilePlan, history: RunHistory, names: bytes) -> None:
    run, why = history.run, closing_reports.why_not(history)
    files.bytes(layout.EVENTS, events_file(history))
    if run.request:
        files.document(layout.REQUEST, run.request)
    if run.contract:
        files.document(layout.CONTRACT, run.contract)
    else:
        files.bytes(layout.CONTRACT, layout.NO_CONTRACT)
        files.missing.append(f"{layout.CONTRACT}: no contract was made: {why}")
    for patch, listing in ((layout.PATCH, layout.NAMES), (layout.GIT_PATCH, layout.GIT_NAMES)):
        files.artifact(patch, run.candidate.patch if run.candidate else "")
        files.bytes(listing, name_list(names))
    kind = run.kind
    if run.candidate is None and (kind.works or kind.examines):
        files.missing += [f"{path}: empty, no candidate was composed: {why}" for path in (layout.PATCH, layout.NAMES)]
    files.text(layout.GIT_BASELINE, run.accepted.baseline_commit)
    files.text(layout.GIT_BASELINE_TREE, run.accepted.baseline_tree)
    if run.candidate:
        files.text(layout.GIT_CANDIDATE, run.candidate.tree)
    if run.landed:
        files.document(layout.GIT_LANDED, run.landed)
        if run.landed.receipt:
            files.artifact(layout.QUEUE_RECEIPT, run.landed.receipt)
    # No worktree exists: the reference names the tree object instead.
    files.text(layout.WORKTREE_REF, f"git-tree:{run.candidate.tree if run.candidate else run.accepted.baseline_tree}")
    files.text(layout.TRACE_ID, run.trace_id)
    files.document(layout.META, meta(history))
    files.document(layout.DECISIONS, decisions_of(run, history.records))
    files.document(layout.TASK_RESULT, closing_reports.final_result(history, names))
    files.document(layout.COMPLETION_REPORT, completion_report(history))
    files.document(layout.PROGRESS_PACKET, progress_of(history, names))
    files.document(layout.REVIEW_REPORT, closing_reports.review_report(history))
    if run.review is None and kind.reviews:
        files.missing.append(f"{layout.REVIEW_REPORT}: stands in for a review that did not take place: {why}")
    if run.routing is not None:
        files.document(layout.REVIEW_ROUTING, run.routing)
    files.document(layout.TEST_REPORT, closing_reports.test_report(history))
    if run.tests is None and kind.tests:
        files.missing.append(f"{layout.TEST_REPORT}: stands in for tests that were not run: {why}")


def _findings_file(files: FilePlan, history: RunHistory) -> None:
    """Add the findings of a search before the other artifacts of its result."""
    if found := closing_reports.findings_uri(history):
        files.artifact(layout.EVIDENCE_BUNDLE, found)
    else:
        files.document(layout.EVIDENCE_BUNDLE, closing_reports.findings_bundle(history))


def _task_files(files: FilePlan, history: RunHistory) -> None:
    for task in history.run.tasks.values():
        if task.contract:
            files.document(layout.task_contract(task.task_id), task.contract)
    for task_id, result in history.results.items():
        files.document(layout.task_result(task_id), result)
        files.artifact(layout.result_patch(task_id), result.git.patch)
        files.artifact(layout.task_patch(task_id), result.git.patch)
        for artifact in result.artifacts:
            path = layout.result_artifact(task_id, artifact.name)
            if path and path not in files:
                files.artifact(path, artifact.uri)
    for gate in history.gates:
        _refused_patch(files, gate)
    for task_id, error in history.errors.items():
        files.document(layout.task_error(task_id), error)
    for task_id, plan in history.plans.items():
        files.document(layout.task_plan(task_id), plan)
    for task_id, report in history.reviews.items():
        files.document(layout.review(task_id), report)
    for task_id, tests in history.tests.items():
        files.document(layout.test(task_id), tests)
        _outputs(files, task_id, tests)


def _outputs(files: FilePlan, task_id: str, tests: TestReport) -> None:
    for number, command in enumerate(tests.commands, 1):
        files.artifact(layout.test_output(task_id, number, "stdout"), command.stdout)
        files.artifact(layout.test_output(task_id, number, "stderr"), command.stderr)
        if command.proof is not None and command.proof.table:
            files.artifact(layout.test_output(task_id, number, "tests"), command.proof.table)


def _refused_patch(files: FilePlan, gate: GateReport) -> None:
    """Add a patch that the diff gate refused. No accepted result contains it, but the verdict names it."""
    patch = next((evidence.digest for evidence in gate.evidence if evidence.name == "patch"), "")
    if gate.gate == "diff" and gate.task_id and layout.digest_of(patch):
        path = layout.task_patch(gate.task_id)
        if path not in files:
            files.artifact(path, patch)


def _test_files(files: FilePlan, history: RunHistory) -> None:
    """Add the run's test evidence: that of the last attempt, all commands concatenated."""
    tests: TestReport | None = history.run.tests
    commands = tests.commands if tests else ()
    files.bytes(layout.TEST_COMMAND, "".join(f"{shlex.join(command.cmd_argv)}\n" for command in commands).encode())
    files.joined(layout.TEST_STDOUT, (command.stdout for command in commands))
    files.joined(layout.TEST_STDERR, (command.stderr for command in commands))


def _consultation_files(files: FilePlan, history: RunHistory) -> None:
    """Add the model consultations of pm, tech lead and reviewers. An unsafe or duplicate name is replaced by the digest."""
    for task_id, asked in history.consultations():
        for artifact in asked.artifacts:
            path = layout.consultation(task_id, artifact.name) if layout.is_safe(artifact.name) else ""
            if path and path not in files:
                files.artifact(path, artifact.uri)


def _interrupted_files(files: FilePlan, history: RunHistory) -> None:
    """Add the artifacts of work that ended without an answer, such as the records of its model calls."""
    for task in history.run.tasks.values():
        for number, left in enumerate(task.interrupted.values(), 1):
            for artifact in left.artifacts:
                path = layout.interrupted_artifact(task.task_id, number, artifact.name) if layout.is_safe(artifact.name) else ""
                if path and path not in files:
                    files.artifact(path, artifact.uri)


def _approval_files(files: FilePlan, history: RunHistory) -> None:
    """Add approval requests and decisions, with each signature beside the exact bytes that it covers."""
    number = 0
    for record in history.records:
        payload = e.event_of(record)
        if isinstance(payload, e.ApprovalRequested):
            files.document(layout.approval_request(payload.request.request_id), payload.request)
        elif isinstance(payload, e.ApprovalDecided):
            number += 1
            place = partial(layout.approval_decision, payload.request_id, number)
            _signed_files(files, payload, place)
            if payload.delegate is not None:
                files.document(place("delegate.json"), payload.delegate)
        elif isinstance(payload, e.ApprovalByGrant):
            _signed_files(files, payload, partial(layout.approval_grant, payload.request_id))


def _summons_files(files: FilePlan, history: RunHistory) -> None:
    """Add questions to roles and their answers; a question without an answer at the run's end has none."""
    for task_id, asked in history.run.summonses.items():
        files.document(layout.summons_question(task_id), asked.task)
        if asked.answer is not None:
            files.document(layout.summons_answer(task_id), asked.answer)


def _signed_files(files: FilePlan, payload: e.ApprovalDecided | e.ApprovalByGrant, place: Callable[[str], str]) -> None:
    files.bytes(place("json"), payload.signed.document.encode())
    files.bytes(place("sshsig"), payload.signed.signature.encode())
    files.document(place("approver.json"), payload.approver)
    files.text(place("roster.txt"), f"sha256:{payload.roster_sha256}")


def _artifact_files(files: FilePlan, history: RunHistory) -> None:
    """Add all other artifacts that the events name (inputs, attachments, examined objects), once per digest."""
    run = history.run
    contracts = [run.contract, *(task.contract for task in run.tasks.values())]
    named: list[Artifact] = [*(run.request.artifacts if run.request else ())]
    named += [artifact for contract in contracts if contract for artifact in contract.inputs.artifacts]
    named += [artifact for result in history.results.values() for artifact in result.artifacts]
    named += [artifact for tests in history.tests.values() for artifact in tests.artifacts]
    named += [each for task in run.tasks.values() for left in task.interrupted.values() for each in left.artifacts]
    named += [artifact for _, asked in history.consultations() for artifact in asked.artifacts]
    uris = [artifact.uri for artifact in named]
    uris += [uri for candidate in history.candidates for uri in (candidate.patch, candidate.names)]
    uris += [uri for review in history.reviews.values() for uri in review.evidence]
    uris += [uri for contract in contracts if contract for uri in contract.evidence_links]
    uris += [evidence.digest for gate in history.gates for evidence in gate.evidence]
    for uri in uris:
        digest = layout.digest_of(uri)
        # Anything else is a data: URI, which contains its bytes, or a name in the repository.
        if digest and not files.holds(uri):
            files.artifact(layout.artifact(digest), uri)
