"""The intake gate: a document from outside becomes a run only with its baseline, its id and its artifacts pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from gatewright.artifacts import inline_bytes
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Artifact, Repository
from gatewright.errors import ArtifactError, GitError, MalformedError
from gatewright.git.mirror import Mirrors
from services.gatekeeper.artifact_cache import ArtifactCache
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.gates.policy import judge_contract, judge_request
from services.gatekeeper.policies import Policies


async def judge_intake(
    document: RunRequest | TaskContract, found: Judgement, policies: Policies, mirrors: Mirrors, store: ArtifactCache
) -> tuple[RunRequest | TaskContract, str, str]:
    """Judge ``document`` and pin it: returns it with the baseline's commit and tree (empty where it could not be resolved).

    1. artifacts are fetched, checked against their digest and, where they came inline, stored  2. policy
    3. only then is the repository asked: nothing is fetched for a document that is refused anyway.
    """
    if isinstance(document, RunRequest):
        pinned = replace(document, artifacts=await _artifacts(document.artifacts, found, store))
        judge_request(pinned, policies, found)
        commit, tree = await _baseline(pinned.repository, pinned.baseline_ref, found, mirrors)
        return replace(pinned, baseline_ref=commit or pinned.baseline_ref), commit, tree
    inputs = replace(document.inputs, artifacts=await _artifacts(document.inputs.artifacts, found, store))
    contract = replace(document, inputs=inputs, log_refs=replace(document.log_refs, run_id=found.run_id))
    judge_contract(contract, policies, found)
    commit, tree = await _baseline(contract.repository, contract.rollback.baseline_ref, found, mirrors)
    rollback = replace(contract.rollback, baseline_ref=commit or contract.rollback.baseline_ref)
    return replace(contract, rollback=rollback), commit, tree


async def _artifacts(artifacts: Sequence[Artifact], found: Judgement, store: ArtifactCache) -> tuple[Artifact, ...]:
    pinned = []
    for artifact in artifacts:
        try:
            data = inline_bytes(artifact.uri)
            if data is None:
                data = await store.get_artifact(artifact.uri)
            digest = hashlib.sha256(data).hexdigest()
            if digest != artifact.sha256.lower():
                found.violate("artifact_invalid", "sha256", f"{artifact.name}: the bytes have digest {digest}")
                continue
            uri = await store.put_artifact(data)
        except (ArtifactError, MalformedError) as error:
            found.violate("artifact_invalid", "artifact", f"{artifact.name}: {error.message}")
            continue
        pinned.append(Artifact(name=artifact.name, uri=uri, sha256=digest))
        found.saw(artifact.name, digest)
    return tuple(pinned)


async def _baseline(repository: Repository | None, ref: str, found: Judgement, mirrors: Mirrors) -> tuple[str, str]:
    if repository is None or not found.clean:
        return "", ""
    try:
        mirror = await mirrors.open(repository.url)
        commit = await mirror.resolve(ref)
        tree = await mirror.tree_of(commit)
    except (GitError, MalformedError) as error:
        code = "repository_unavailable" if error.reason == GitError.code else error.reason
        found.violate(code, "repository", error.message)
        return "", ""
    found.saw("baseline_commit", commit)
    found.saw("baseline_tree", tree)
    return commit, tree
