"""The definition of done: before landing, the whole run is compared with its contract again, from its own records.

Earlier gates judged each step when it happened. This gate checks that together they are what was ordered (close-coherence).
Every rule, kept or broken, is a line of the completion report.
"""

from __future__ import annotations

from gatewright import scope
from gatewright.contracts.strict_json import parse
from gatewright.contracts.task_contract import RequiredOutput
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import ArtifactError, MalformedError, ScopeError
from gatewright.git.mirror import Mirror
from gatewright.rules.gate_evidence import required_output
from gatewright.rules.reports import completion as rules
from gatewright.rules.reports.completion import AUDIT, DOCUMENTS, OUTPUTS, OWNERS, SHARDS, TESTS, VIOLATIONS
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import Artifacts, ChangeContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder

#: The run's own reports, by the names that a contract may require them by.
OWN_REPORTS = frozenset({"review_report", "test_report", "completion_report", "evidence_report"})
_DOCUMENT_ENDINGS = (".md", ".rst", ".adoc")


async def judge_completion(context: ChangeContext, run: Run) -> None:
    """Check that the run is what its contract ordered.

    1. Every shard is done and accepted.
    2. Every changed file has one owner among them, and the contract allows the change.
    3. Every required test ran on the candidate and passed.
    4. No violation is open.
    5. Every required output exists.
    6. Required documents were written.
    7. An audit changes nothing and leaves a report.

    Raises:
        GitError: the mirror cannot be read.
        ArtifactError: an artifact cannot be read.
        BusError: the artifact store does not answer.
    """
    changed = await changed_paths(run, context.artifacts)
    _shards(context.report, run)  # 1
    _owners(context, run, changed)  # 2
    _check_tests(context, run)  # 3
    _violations(context.report, run)  # 4
    await _outputs(context, run, changed)  # 5
    _documents(context, changed)  # 6
    _audit(context, changed)  # 7


async def changed_paths(run: Run, artifacts: Artifacts) -> tuple[bytes, ...]:
    """Return the changed paths of the candidate; none before there is a candidate.

    Raises:
        ArtifactError: the list of paths cannot be read.
        BusError: the artifact store does not answer.
    """
    if run.candidate is None or not run.candidate.names:
        return ()
    names = await artifacts.get_artifact(run.candidate.names)
    return tuple(path for path in names.split(b"\0") if path)


def _shards(report: GateReportBuilder, run: Run) -> None:
    planned = len(run.plan.contracts) if run.plan else 0
    report.checked(SHARDS, f"{len(run.workers())} of {planned} done in attempt {run.attempt}")
    for broken in rules.open_shards(run):
        report.violate(*broken)


def _owners(context: ChangeContext, run: Run, changed: tuple[bytes, ...]) -> None:
    report, contract = context.report, context.contract
    report.checked(OWNERS, f"{len(changed)} changed files")
    for broken in rules.files_without_owner(run, contract, changed):
        report.violate(*broken)


def _check_tests(context: ChangeContext, run: Run) -> None:
    report, contract = context.report, context.contract
    needed = [test.name for test in contract.acceptance_tests if test.must_pass]
    report.checked(TESTS, f"{len(needed)} must pass: {', '.join(needed)[:200]}")
    for broken in rules.missing_tests(run, contract):
        report.violate(*broken)


def _violations(report: GateReportBuilder, run: Run) -> None:
    report.checked(VIOLATIONS, "none of the review, the tests or the tasks of this attempt")
    for broken in rules.open_violations(run):
        report.violate(*broken)


async def _outputs(context: ChangeContext, run: Run, changed: tuple[bytes, ...]) -> None:
    report, contract = context.report, context.contract
    report.checked(OUTPUTS, ", ".join(f"{output.type} {output.name}" for output in contract.required_outputs)[:400])
    for output in contract.required_outputs:
        place = await _output_name(context, output, run, changed)
        if place:
            report.saw(required_output(output), place)
        else:
            words = f"{output.type} {output.name!r} was ordered and is not there"
            report.violate("completion_output_missing", OUTPUTS, words)


async def _output_name(context: ChangeContext, output: RequiredOutput, run: Run, changed: tuple[bytes, ...]) -> str:
    """Return the immutable name of an output: an artifact's URI, an object id, or a name; empty when it is missing."""
    contract, artifacts = context.contract, context.artifacts
    match output.type:
        case "patch":
            there = run.candidate is not None and (changed or contract.audit_only)
            return run.candidate.patch if there and run.candidate else ""
        case "commit":
            lands = contract.repository is not None and contract.repository.landing != "none"
            return run.candidate.tree if lands and run.candidate else ""
        case "report":
            return output.name if output.name in OWN_REPORTS else _artifact(output.name, run)
        case "json":
            return output.name if output.name == "plan" else await _json(_artifact(output.name, run), artifacts)
        case "file":
            return await _file(output.name, run, context.mirror) or _artifact(output.name, run)


def _artifact(name: str, run: Run) -> str:
    """Return the URI of an artifact with that name from a task of this attempt; empty for none."""
    handed: list[Artifact] = [artifact for task in run.workers() if task.result for artifact in task.result.artifacts]
    handed += run.tests.artifacts if run.tests else ()
    return next((artifact.uri for artifact in handed if artifact.name == name), "")


async def _json(uri: str, artifacts: Artifacts) -> str:
    if not uri:
        return ""
    try:
        parse(await artifacts.get_artifact(uri))
    except (MalformedError, ArtifactError):
        return ""
    return uri


async def _file(name: str, run: Run, mirror: Mirror) -> str:
    """Return the object id of a file in the candidate's tree; empty when the path is invalid or missing."""
    if run.candidate is None:
        return ""
    try:
        path = scope.check_path(name)
    except ScopeError:
        return ""
    entries = await mirror.files(run.candidate.tree, (path,))
    return next((entry.object_id for entry in entries if entry.path == path.encode()), "")


def _documents(context: ChangeContext, changed: tuple[bytes, ...]) -> None:
    report, contract = context.report, context.contract
    wanted = [each.name for each in contract.required_outputs if each.type == "file" and is_document(each.name)]
    report.checked(DOCUMENTS, ", ".join(wanted)[:400] or "no document was asked for")
    for name in wanted:
        if name.encode("utf-8", "surrogatepass") not in changed:
            report.violate("completion_document_missing", DOCUMENTS, f"{name!r} was ordered and was not written")


def is_document(name: str) -> bool:
    """Return whether a required file is a document for people: this run must write it, not just find it."""
    return name.startswith(("docs/", "doc/")) or name.lower().endswith(_DOCUMENT_ENDINGS)


def _audit(context: ChangeContext, changed: tuple[bytes, ...]) -> None:
    report, contract = context.report, context.contract
    report.checked(AUDIT, "an audit: nothing may change" if contract.audit_only else "not an audit: something must change")
    for broken in rules.audit(contract, changed):
        report.violate(*broken)
