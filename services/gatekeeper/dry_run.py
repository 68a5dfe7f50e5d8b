"""Dry run: the gates' verdict on a contract and a change, without a run.

``gatewright check`` and ``gatewright policy explain`` use it: the question and the gates' reports are JSON. The same functions
judge here as in a run, on objects fetched into a mirror in a temporary folder. Nothing is executed, and the repository is only
read.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.clock import SystemClock
from gatewright.contracts import GateReport, TaskContract, codec
from gatewright.contracts.reports import GateName
from gatewright.errors import ArtifactError, ConfigurationError, DeniedError, GitError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.rules.approvals import wants_another
from gatewright.rules.gate_evidence import POLICIES
from gatewright.rules.people.ownership import orderer_doubt, orderers_of
from gatewright.secrets.selection import DEFAULT_SCANNER, local_catalogue, make_scanner
from gatewright.services.gatekeeper.gates.change.candidate import ComposedCandidate, judge_patch_on, refuse_empty_change
from gatewright.services.gatekeeper.gates.change.copies import remark_copies
from gatewright.services.gatekeeper.gates.change.dependencies import remark_dependencies
from gatewright.services.gatekeeper.gates.change.destructive import judge_losses
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.gates.change.stored_form import judge_stored_form
from gatewright.services.gatekeeper.gates.change.suppressions import remark_suppressions
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.contract.breadth import judge_breadth
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from gatewright.services.gatekeeper.gates.landing.landing import judge_target
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.gates.whole_change import judge_whole_change, name_path_classes
from gatewright.services.gatekeeper.intake.publishers import document_faults, rule_of
from gatewright.services.gatekeeper.policies.load import Policies, load
from gatewright.services.gatekeeper.policies.publishers import SubmissionKind
from gatewright.worker_role import ways

RUN = "run-examined"


class DryRunQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A contract and, optionally, a change to judge.

    ``contract`` is the contract's JSON. ``source`` is where the repository's objects can be read, ``baseline`` a ref or commit
    of it. The change leads from the baseline to the commit ``candidate``, or is ``patch`` (base64). ``publisher`` is the
    submitter and ``kind`` the kind of document submitted. With ``empty_passes`` a change without changed files is accepted: git
    hooks see pushes and commits without changes.
    """

    contract: msgspec.Raw
    policies: str
    judge_policy: bool = True
    source: str | None = None
    baseline: str | None = None
    candidate: str | None = None
    patch: bytes | None = None
    publisher: str | None = None
    kind: SubmissionKind = "contract"
    empty_passes: bool = False


class DryRunResult(msgspec.Struct, frozen=True):
    """``reports`` of the gates, and ``unjudged``: rules that a run would check but a dry run cannot.

    ``judged_files``: number of judged files; None when no change was judged.
    """

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    judged_files: int | None = None


async def dry_run(question: DryRunQuestion, scratch: Path) -> DryRunResult:
    """Judge a contract and its change in the temporary folder ``scratch``.

    Raises:
        MalformedError: the question cannot be read.
        ConfigurationError: the policies or the environment are incomplete.
        GitError: the repository cannot be read.
    """
    contract = codec.decode(bytes(question.contract), TaskContract)
    policies = load(Path(question.policies))
    reports: list[GateReport] = []
    unjudged: list[str] = []
    judged_files = None
    access = RepositoryAccess.load(Path(question.policies), "operator")
    mirror = await Mirrors(scratch, access=access).open(question.source) if question.source is not None else None
    commit = await mirror.resolve(question.baseline or contract.rollback.baseline_ref) if mirror is not None else ""
    if question.judge_policy:
        reports.append(await _policy(question, contract, policies, mirror, commit))
        unjudged += _orderer(question, contract, policies)
        if mirror is None:
            unjudged.append("breadth: needs the repository to count what the paths cover (--repo); a run checks it")
    if question.candidate is not None or question.patch is not None:
        if mirror is None:
            unjudged.append("the change: without the repository (--repo) there is no tree to judge; a run would fail here")
        else:
            report, judged_files = await _judge_change(question, contract, policies, mirror, commit)
            reports.append(report)
    return DryRunResult(tuple(reports), tuple(unjudged), judged_files)


class NoArtifacts:
    """Artifact store of a dry run, which is empty: only repository objects and the contract's own text are judged."""

    async def put_artifact(self, data: bytes) -> str:
        raise ArtifactError(f"a dry run stores no artifact ({len(data)} bytes)", code="artifact_missing")

    async def get_artifact(self, uri: str) -> bytes:
        raise ArtifactError(f"a dry run has no artifact {uri}", code="artifact_missing")

    async def get_upload(self, uri: str, publisher: str) -> bytes:
        raise ArtifactError(f"a dry run has no artifact {uri} of {publisher}", code="artifact_missing")


def _begin(gate: GateName, policies: Policies) -> GateContext:
    context = GateContext.begin(GateReportBuilder(RUN, gate), policies, NoArtifacts(), SystemClock())
    context.report.saw(POLICIES, policies.sha256)
    return context


async def _policy(
    question: DryRunQuestion, contract: TaskContract, policies: Policies, mirror: Mirror | None, commit: str
) -> GateReport:
    context = _begin("policy", policies)
    if question.publisher is not None:
        _publisher(context, question.publisher, question.kind, contract)
    granted = judge_contract(context, contract)
    if mirror is not None:
        pack = policies.packs.pack(granted.policy_pack or policies.packs.default)
        tree = await mirror.tree_of(commit)
        url = granted.repository.url if granted.repository is not None else mirror.url
        await judge_breadth(context, mirror, tree, pack, granted.allowed_paths, url)
        if granted.repository is not None:
            await judge_target(context, granted.repository, commit, mirror)
    return context.close()


def _orderer(question: DryRunQuestion, contract: TaskContract, policies: Policies) -> tuple[str, ...]:
    """Check that another person could approve, where a rule requires approval. Raises ConfigurationError."""
    if not any(wants_another(rule) for rule in policies.people.rules):
        return ()
    people = policies.people.roster()[0].people
    name = question.publisher or DEFAULT_PUBLISHER
    publisher = policies.publishers.of(name)
    doubt = orderer_doubt(orderers_of(contract, name, publisher.persons if publisher else (), people), people)
    return (f"approval by another person: {doubt}",) if doubt else ()


def _publisher(context: GateContext, name: str, kind: SubmissionKind, contract: TaskContract) -> None:
    """Check what the gatekeeper would check of this publisher before a run. Limits are skipped: they depend on current load."""
    report, rule = context.report, f"publishers.{name}"
    try:
        faults = document_faults(contract, kind, RUN, rule_of(context.policies.publishers, name))
    except DeniedError as error:
        report.violate(error.reason, rule, error.message)
        return
    report.checked(rule, f"may submit this {kind}")
    for fault in faults:
        report.violate(fault.code, rule, f"{fault.pointer or '/'}: {fault.message}")


async def _judge_change(
    question: DryRunQuestion, contract: TaskContract, policies: Policies, mirror: Mirror, commit: str
) -> tuple[GateReport, int | None]:
    """Judge a change by the diff gate and the integrated gate, in one report. Return the number of judged files.

    The number is None for a patch that does not apply.
    """
    judged_files = None
    url = contract.repository.url if contract.repository is not None else mirror.url
    # A dry run can ask no person, so its substitute verdict lets no CI file change.
    rules = policies.people.of(url) if question.judge_policy else ()
    context = _begin("integrated", policies).of_change(contract, mirror, rules)
    baseline = await mirror.tree_of(commit)
    patch = question.patch
    if question.candidate is not None:
        await mirror.ensure(question.candidate)
        patch = await mirror.diff(baseline, await mirror.tree_of(question.candidate))
    try:
        secrets = SecretsCheck(make_scanner(DEFAULT_SCANNER, local_catalogue()))
        tree = await judge_patch_on(context, secrets, patch or b"", commit, baseline)
        if tree:
            candidate = ComposedCandidate(tree, await mirror.changes(baseline, tree), patch or b"")
            judged_files = len(candidate.changes)
            if not question.empty_passes:
                refuse_empty_change(context, candidate.changes)
            await judge_losses(context, candidate.changes, tree)
            await remark_copies(context, candidate.changes, baseline, tree)
            await judge_stored_form(context, candidate.changes, baseline, tree)
            await remark_suppressions(context, candidate.changes)
            await remark_dependencies(context, candidate.changes)
            for executor in ways(contract) or (None,):
                await judge_whole_change(context, candidate, executor)
            name_path_classes(context, candidate, rules)
            await secrets.judge(context, candidate.changes)
    except GitError as error:
        context.report.violate(error.reason, "integrated_gate", error.message)
    return context.close(), judged_files


def answer(question: bytes) -> bytes:
    """Answer a DryRunQuestion with a DryRunResult, both as JSON.

    Raises:
        MalformedError: the question cannot be read.
        ConfigurationError: the policies or the environment are incomplete.
        GitError: the repository cannot be read.
    """
    try:
        asked = read_json(question, DryRunQuestion)
    except UnreadableDocumentError as error:
        raise ConfigurationError(f"the question cannot be read: {error}") from error
    with tempfile.TemporaryDirectory(prefix="gatewright-dry-run-") as scratch:
        return msgspec.json.encode(asyncio.run(dry_run(asked, Path(scratch))))
