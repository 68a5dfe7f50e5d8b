"""Data that a run may send to model providers: the plan gate builds these manifests from the mirror and the policies.

Runs of commits under review and searches have no plan: the policy gate builds theirs with the contract.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.transfers import TransferDestination, TransferManifest, TransferRole, TransferSource
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import DeniedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.changes import TreeEntry
from gatewright.git.mirror import Mirrors
from gatewright.git.modes import EXECUTABLE, FILE, SYMLINK
from gatewright.models.choice import DOCUMENT_APIS, TEXT_APIS, api_of, asked_models, first_model
from gatewright.models.policy import ModelsPolicy
from gatewright.models.transfers import NOT_APPROVED, TransfersPolicy, endpoint_of_provider
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.transfers import asks_person, later_names, risk_of
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run
from gatewright.scope import AllowedPaths
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.context import GateContext

_RULE = "transfers"
#: Purposes of the worker and of the reviewer, by kind of run.
_PURPOSES: dict[TaskType, dict[TransferRole, str]] = {
    "IMPLEMENT": {"worker": "make the change", "reviewer": "review the change that is made"},
    "REVIEW": {"reviewer": "review the commits of the order"},
    "SEARCH": {"worker": "answer the question, with the pages that it reads", "reviewer": "compare claims with their quotes"},
}
_SHOWN = 20
_SHOWN_CHARACTERS = 120
_CONTENTS = frozenset({FILE, EXECUTABLE, SYMLINK})


@dataclass(frozen=True, slots=True)
class TransferBasis:
    """What manifests are made of: the run, its baseline, its approval rules, and the chosen pools."""

    run_id: str
    repository_url: str
    baseline_commit: str
    baseline_tree: str
    approval_rules: tuple[ApprovalRule, ...]
    pools: Mapping[str, str]

    @classmethod
    def of(cls, run: Run, pools: Mapping[str, str]) -> TransferBasis:
        seen = run.accepted
        return cls(run.run_id, seen.repository_url, seen.baseline_commit, seen.baseline_tree, seen.approval_rules, pools)


async def plan_transfers(
    context: GateContext, run: TransferBasis, contract: TaskContract, mirrors: Mirrors, scanner: SecretScanner
) -> tuple[TransferManifest, ...]:
    """Return one manifest for each role that policy lets send data and that has models to ask; empty without a transfer policy.

    Data of the test runner alone is excluded, and the models of a search read no repository. Violation:
    ``transfer_not_approved``, where a person has to approve a manifest and no rule requests that.

    Raises:
        GitError: the mirror cannot be read.
        BusError: the artifact store does not answer.
        ArtifactError: an artifact cannot be read.
        DeniedError: the secret scan failed (``secret_scan_failed``), or ``ModelsPolicy.grant`` refuses.
    """
    policy = context.policies.transfers
    purposes, searches = _PURPOSES.get(contract.task_type, {}), KINDS[contract.task_type].searches
    if policy is None or not purposes:
        return ()
    context.report.checked(_RULE)
    models = context.policies.models
    asked = {role: tuple(_models(context, run, contract, role)) for role in policy.roles if role in purposes}
    if not any(asked.values()):
        return ()
    contract = visible(contract)
    documents = await _documents(context, contract)
    tree, entries = ((), ()) if searches else await _tree(run, mirrors)
    sources = (*(each.source for each in documents), *tree)
    secrets, unscanned = await _secrets(run, documents, entries, mirrors, scanner, policy.scan_bytes)
    rules = [rule for rule in run.approval_rules if rule.reason == "transfer"]
    made = []
    for role, names in asked.items():
        if not names:
            continue
        manifest = TransferManifest(
            run_id=run.run_id,
            role=role,
            purpose=purposes[role],
            destinations=tuple(dict.fromkeys(_destinations(models, policy, names))),
            sources=sources,
            bytes=sum(each.bytes for each in sources),
            later=later_names(role, searches=searches),
            most_bytes=policy.most_bytes,
            secrets=secrets,
            unscanned_bytes=unscanned,
            protected=_protected_classes(context, contract, entries),
            low_risk_bytes=policy.low_risk_bytes,
            mode=policy.external_transfers,
            risk="high",
            phrase=rules[0].phrase if rules else "",
            preview=tuple(_preview(entries)),
        )
        manifest = replace(manifest, risk=risk_of(manifest))
        if asks_person(manifest) and not rules:
            words = f"a person has to approve what the {role} sends ({manifest.risk} risk), and no rule asks (reason transfer)"
            context.report.violate(NOT_APPROVED, _RULE, words)
        made.append(manifest)
    return tuple(made)


def _models(context: GateContext, run: TransferBasis, contract: TaskContract, role: TransferRole) -> Iterator[str]:
    """Yield the names of the models that tasks of ``role`` may call: the first choice and its fallbacks.

    A model that the client cannot call, because its provider has another API, is left out.
    """
    models, pool = context.policies.models, run.pools.get(role)
    if role != "worker":
        for first in models.route(role, pool)[:1]:
            api = api_of(models, first, DOCUMENT_APIS)
            yield from asked_models(models, role, first, api, pool) if api is not None else ()
        return
    for executor in (contract.executor, *(contract.candidates or ())):
        if executor is not None and EXECUTOR_KINDS[executor.kind].asked_anew:
            yield from _of_worker(context, executor, pool)


def _of_worker(context: GateContext, executor: Executor, pool: str | None) -> Iterator[str]:
    """Yield the models of one executor. Without a named agent, every agent of the operator may be chosen."""
    models = context.policies.models
    if executor.kind == "model":
        name = executor.model or first_model(models, "worker", pool=pool)
        api = api_of(models, name, TEXT_APIS)
        yield from asked_models(models, "worker", name, api, pool, fallback=executor.falls_back)
        return
    agents = context.policies.agents
    for entry in (agents.agent(executor.agent),) if executor.agent is not None else agents.agents:
        try:
            name = executor.model or entry.model or first_model(models, "worker", api=entry.asks_by, pool=pool)
            yield from asked_models(models, "worker", name, entry.asks_by, pool, fallback=executor.falls_back)
        except DeniedError:
            if executor.agent is not None:
                raise  # of several, another may be chosen


def _destinations(models: ModelsPolicy, policy: TransfersPolicy, names: Iterable[str]) -> Iterator[TransferDestination]:
    for name in names:
        model = models.model(name)
        provider = models.provider(model.provider) if model is not None else None
        if model is not None and provider is not None:
            endpoint = endpoint_of_provider(provider)
            yield TransferDestination(
                provider=provider.name, endpoint=endpoint, model=model.upstream_name, internal=policy.is_internal(provider)
            )


@dataclass(frozen=True, slots=True)
class _OrderDocument:
    """A document of the order: its entry in the manifest, and its bytes."""

    source: TransferSource
    data: bytes


async def _documents(context: GateContext, contract: TaskContract) -> tuple[_OrderDocument, ...]:
    """Return the texts of the order and its artifacts, including the memory of earlier runs."""
    given = [("spec", contract.inputs.spec.encode())]
    given += [(each.name, await context.artifacts.get_artifact(each.uri)) for each in contract.inputs.artifacts]
    return tuple(
        _OrderDocument(
            TransferSource(kind="document", name=name, digest=hashlib.sha256(data).hexdigest(), bytes=len(data)), data
        )
        for name, data in given
    )


async def _tree(run: TransferBasis, mirrors: Mirrors) -> tuple[tuple[TransferSource, ...], tuple[TreeEntry, ...]]:
    """Return the whole tree, which an agent can read, and its files."""
    tree = run.baseline_tree
    if not tree:
        return (), ()
    mirror = await mirrors.open(run.repository_url)
    await mirror.ensure(run.baseline_commit)
    entries = await mirror.files(tree)
    source = TransferSource(kind="tree", name="baseline", digest=tree, bytes=sum(each.size for each in entries))
    return (source,), entries


async def _secrets(
    run: TransferBasis,
    documents: Sequence[_OrderDocument],
    entries: Iterable[TreeEntry],
    mirrors: Mirrors,
    scanner: SecretScanner,
    limit: int,
) -> tuple[int, int]:
    """Return the number of suspected secrets, and the number of bytes beyond ``limit`` that were not scanned."""
    looked, chosen = [], []
    unscanned = taken = 0
    for document in documents:
        if taken + document.source.bytes > limit:
            unscanned += document.source.bytes
            continue
        taken += document.source.bytes
        looked.append(document.data)
    for entry in entries:
        if entry.mode not in _CONTENTS:
            continue
        if taken + entry.size > limit:
            unscanned += entry.size
            continue
        taken += entry.size
        chosen.append(entry.object_id)
    if chosen:
        mirror = await mirrors.open(run.repository_url)
        looked += (await mirror.blobs(chosen)).values()
    found = await asyncio.to_thread(lambda: sum(len(scanner.find(data)) for data in looked))
    return found, unscanned


def _protected_classes(context: GateContext, contract: TaskContract, entries: Iterable[TreeEntry]) -> tuple[str, ...]:
    """Return the protected classes of files that the contract allows the task to change."""
    allowed = AllowedPaths(contract.allowed_paths)
    found = {kind.name for entry in entries if allowed.cover(entry.path) for kind in context.policies.path_classes(entry.path)}
    return tuple(sorted(found))


def _preview(entries: Iterable[TreeEntry]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if number == _SHOWN:
            return
        yield f"{entry.path.decode('utf-8', 'replace')[:_SHOWN_CHARACTERS]} ({entry.size} bytes)"
