"""The intake gate: a document from outside becomes a run only with pinned baseline, id and artifacts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gatewright.artifacts import inline_bytes
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Artifact, Environment, PolicyPack, Repository, RoleName
from gatewright.errors import ArtifactError, DeniedError, GitError, HostError, MalformedError
from gatewright.git.linked.contents import linked_files
from gatewright.git.mirror import Mirrors
from gatewright.git.tracked import TRACKED, refuse_tracked_environment
from gatewright.host_errors import is_waited_for
from gatewright.rules.gate_evidence import BASELINE, BASELINE_COMMIT, BASELINE_TREE
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.contract.breadth import judge_breadth
from gatewright.services.gatekeeper.gates.contract.memory import refuse_given_memory
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract, judge_request
from gatewright.services.gatekeeper.gates.contract.provided import judge_tracked
from gatewright.services.gatekeeper.gates.contract.role_contract import bound_schema, is_binding
from gatewright.services.gatekeeper.gates.landing.landing import judge_target


async def judge_intake(
    context: GateContext, document: RunRequest | TaskContract, mirrors: Mirrors, publisher: str
) -> tuple[RunRequest | TaskContract, str, str]:
    """Judge ``document`` and pin it.

    0. The pack's limits apply where the document names none.
    1. Artifacts come from the document or from uploads of ``publisher``. They are checked against their digest and stored where
       no publisher can write.
    2. The policy gate's rules.
    3. Only then is the repository fetched: a refused document causes no fetch.
    4. The change could land on its target.
    5. Breadth, on the baseline.
    6. Provided files and the environment replace nothing that the repository tracks.

    Returns:
        The document as judged, with the granted permissions, and the commit and tree of its baseline (empty when unresolved).
    """
    packs = context.policies.packs
    document = packs.pack(document.policy_pack or packs.default).limits.complete(document)
    if isinstance(document, RunRequest):
        given = refuse_given_memory(context, document.artifacts)
        request = replace(document, artifacts=await _artifacts(context, given, publisher))
        await asyncio.to_thread(judge_request, context, request)  # a large request must not block other inputs
        baseline = _Baseline(
            request.repository,
            request.baseline_ref,
            request.allowed_paths,
            request.policy_pack,
            request.environment,
            request.artifacts,
        )
        commit, tree = await _pin(context, baseline, mirrors)
        return replace(request, baseline_ref=commit or request.baseline_ref), commit, tree
    given = refuse_given_memory(context, document.inputs.artifacts)
    inputs = await _artifacts(context, given, publisher, document.assigned_agent.role)
    contract = replace(
        document,
        inputs=replace(document.inputs, artifacts=inputs),
        log_refs=replace(document.log_refs, run_id=context.report.run_id),
        requested_permissions=None,
        mutation=None,
        transfer=None,
        questions=None,
        operator_words=(),
        candidate=None,
    )
    contract = await asyncio.to_thread(judge_contract, context, contract)
    pack: PolicyPack = contract.policy_pack or context.policies.packs.default
    baseline = _Baseline(
        contract.repository,
        contract.rollback.baseline_ref,
        contract.allowed_paths,
        pack,
        contract.environment,
        contract.inputs.artifacts,
    )
    commit, tree = await _pin(context, baseline, mirrors)
    rollback = replace(contract.rollback, baseline_ref=commit or contract.rollback.baseline_ref)
    return replace(contract, rollback=rollback), commit, tree


@dataclass(frozen=True)
class _Baseline:
    """Baseline of a document, the breadth that the document opens there, and the files that its commands see."""

    repository: Repository | None
    ref: str
    paths: tuple[str, ...]
    pack: PolicyPack
    environment: Environment | None
    artifacts: tuple[Artifact, ...]


async def _artifacts(
    context: GateContext, artifacts: Sequence[Artifact], publisher: str, role: RoleName = "WORKER"
) -> tuple[Artifact, ...]:
    report, store = context.report, context.artifacts
    report.checked("artifacts", f"{len(artifacts)} input artifact(s)")
    pinned = []
    for artifact in artifacts:
        try:
            binding = is_binding(artifact)
            data = bound_schema(context, artifact, role) if binding else inline_bytes(artifact.uri)
            if binding and data is None:
                continue
            if data is None:
                data = await store.get_upload(artifact.uri, publisher)
            digest = hashlib.sha256(data).hexdigest()
            if digest != artifact.sha256.lower():
                report.violate("artifact_invalid", "artifacts", f"{artifact.name}: the bytes have digest {digest}")
                continue
            uri = await store.put_artifact(data)
        except (ArtifactError, MalformedError) as error:
            report.violate("artifact_invalid", "artifacts", f"{artifact.name}: {error.message}")
            continue
        pinned.append(Artifact(name=artifact.name, uri=uri, sha256=digest))
        report.saw(artifact.name, digest)
    return tuple(pinned)


async def _pin(context: GateContext, baseline: _Baseline, mirrors: Mirrors) -> tuple[str, str]:
    report = context.report
    repository = baseline.repository
    if repository is None or not report.clean:
        return "", ""
    report.checked(BASELINE, baseline.ref)
    try:
        mirror = await mirrors.open(repository.url)
        commit = await mirror.resolve(baseline.ref)
        tree = await mirror.tree_of(commit)
        report.saw(BASELINE_COMMIT, commit)
        report.saw(BASELINE_TREE, tree)
        await judge_target(context, repository, commit, mirror)
        pack = context.policies.packs.pack(baseline.pack)
        await judge_breadth(context, mirror, tree, pack, baseline.paths, repository.url)
        await judge_tracked(context, baseline.artifacts, mirror, tree)
        await linked_files(mirror, commit)
        if baseline.environment is not None:
            # As this host can check; the roles that expose the environment check it on theirs.
            report.checked("environment", baseline.environment.prefix)
            await refuse_tracked_environment(Path(baseline.environment.prefix), mirror, tree)
    except DeniedError as error:
        about = "environment" if error.reason == TRACKED else "repository"
        report.violate(error.reason, about, error.message)
        return "", ""
    except (GitError, HostError, MalformedError) as error:
        if is_waited_for(error):
            raise
        code = "repository_unavailable" if error.reason == GitError.code else error.reason
        report.violate(code, "repository", error.message)
        return "", ""
    return commit, tree
