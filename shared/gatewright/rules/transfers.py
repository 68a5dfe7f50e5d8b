"""Transfers to model providers: their risk, who has to approve, and what a task may send. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from gatewright.budgets import number
from gatewright.contracts import codec
from gatewright.contracts.transfers import (
    MOST_SOURCES,
    AskedTransfer,
    TransferLeave,
    TransferManifest,
    TransferRisk,
    TransferRole,
)
from gatewright.contracts.vocabulary import Artifact
from gatewright.research.findings import FINDINGS
from gatewright.run.state import Run, RunTask

#: The policy file; a run accepted under one has manifests.
FILE = "transfers.json"
#: Artifacts of the run itself that a task of each role may receive, by the prefix of their name; ``questions`` are answers of
#: people to the run's questions. All were scanned for secrets when created: patches by the gates, outputs and reports by the
#: roles that wrote them, answers on arrival.
LATER: Mapping[TransferRole, tuple[str, ...]] = {"worker": ("failed.", "questions"), "reviewer": ("candidate.",)}
#: Findings of a search and their sources, which its reviewer receives.
_FOUND: tuple[str, ...] = (FINDINGS, "source:", "text:")
_SHOWN = 8
#: Maximum characters of a source's name.
_NAME = 200


def later_names(role: TransferRole, *, searches: bool) -> tuple[str, ...]:
    """Return the prefixes of artifacts of the run itself that a task of the role may receive."""
    return LATER[role] + (_FOUND if searches and role == "reviewer" else ())


def risk_of(manifest: TransferManifest) -> TransferRisk:
    """Return the risk of a manifest.

    1. High: a secret among the sources, or a protected class that the task may change.
    2. Medium: more bytes than the limit for low risk, or unscanned bytes.
    3. Low otherwise.
    """
    if manifest.secrets or manifest.protected:
        return "high"
    if manifest.bytes > manifest.low_risk_bytes or manifest.unscanned_bytes:
        return "medium"
    return "low"


def asks_person(manifest: TransferManifest) -> bool:
    """Return whether a person has to approve: not if the operator keeps all data, nor for low risk where policy permits that.

    The risk is recomputed, since a document's own claim approves nothing.
    """
    if all(each.internal for each in manifest.destinations):
        return False
    return manifest.mode == "manual" or risk_of(manifest) != "low"


def manifest_digest(manifest: TransferManifest) -> str:
    return hashlib.sha256(codec.encode(manifest)).hexdigest()


def transfer_words(run: Run) -> str:
    """Return the text of the approval request, with each manifest's digest; empty when no approval is needed."""
    asked = [each for each in run.transfers if asks_person(each)]
    digests = ", ".join(manifest_digest(each) for each in asked)
    return f"manifests {digests}: {'; '.join(map(_manifest_words, asked))}" if asked else ""


def asked_transfers(run: Run) -> tuple[AskedTransfer, ...]:
    """Return the transfers to approve, as shown and signed."""
    return tuple(_asked_transfer(each) for each in run.transfers if asks_person(each))


def transfer_lines(transfers: Iterable[AskedTransfer]) -> Iterator[str]:
    """Yield lines for people: the provider, the sources, the maximum size, and some of the paths."""
    for each in transfers:
        yield f"the {each.role} sends at most {number(each.most_bytes)} bytes in all, to {each.purpose} ({each.risk} risk)"
        for place in each.destinations:
            yield f"  to {place.provider}: {place.model} at {place.endpoint}"
        yield f"  out of {number(each.bytes)} bytes of sources, again with each call:"
        for source in each.sources:
            yield f"    {source.kind} {source.name}: {number(source.bytes)} bytes, {source.digest}"
        if each.more_sources:
            yield f"    and {each.more_sources} more documents"
        if each.later:
            yield f"  and what the run makes later: {', '.join(each.later)}"
        unscanned = f"; {number(each.unscanned_bytes)} bytes were not searched" if each.unscanned_bytes else ""
        yield f"  places that look like secrets: {each.secrets}{unscanned}"
        if each.protected:
            yield f"  protected classes that may change: {', '.join(each.protected)}"
        if each.preview:
            yield f"  paths, the first {len(each.preview)}: {', '.join(each.preview)}"
        yield f"  manifest {each.manifest_sha256}"


def _asked_transfer(manifest: TransferManifest) -> AskedTransfer:
    named = tuple(replace(each, name=each.name[:_NAME]) for each in manifest.sources[:MOST_SOURCES])
    return AskedTransfer(
        role=manifest.role,
        purpose=manifest.purpose,
        manifest_sha256=manifest_digest(manifest),
        destinations=tuple(each for each in manifest.destinations if not each.internal),
        sources=named,
        bytes=manifest.bytes,
        most_bytes=manifest.most_bytes,
        secrets=manifest.secrets,
        unscanned_bytes=manifest.unscanned_bytes,
        protected=manifest.protected,
        risk=risk_of(manifest),
        preview=manifest.preview,
        more_sources=len(manifest.sources) - len(named),
        later=manifest.later,
    )


def manifest_of(run: Run, role: str) -> TransferManifest | None:
    """Return the manifest of a role; None without one."""
    return next((each for each in run.transfers if each.role == role), None)


def leave_for(run: Run, role: str, artifacts: Iterable[Artifact] = (), sent: int = 0) -> TransferLeave | None:
    """Return what a task of ``role`` may send.

    Work is dispatched only after all approvals.

    Args:
        run: the run.
        role: the role.
        artifacts: inputs of the task.
        sent: bytes already sent.

    Returns:
        None without a manifest, or when an input is not in the manifest.
    """
    manifest = manifest_of(run, role)
    if manifest is None or any(True for _ in unnamed_artifacts(manifest, artifacts)):
        return None
    return TransferLeave(
        run_id=manifest.run_id,
        role=manifest.role,
        manifest_sha256=manifest_digest(manifest),
        destinations=manifest.destinations,
        most_bytes=max(0, manifest.most_bytes - sent),
    )


def task_leave(run: Run, task: RunTask) -> TransferLeave | None:
    """Return what a task may still send, after its earlier deliveries."""
    given = task.contract.inputs.artifacts if task.contract is not None else ()
    return leave_for(run, task.role, given, sent_by(task))


def unnamed_artifacts(manifest: TransferManifest, artifacts: Iterable[Artifact]) -> Iterator[Artifact]:
    """Yield artifacts that the manifest names neither by digest nor as the run's own later artifacts."""
    known = {each.digest for each in manifest.sources}
    for artifact in artifacts:
        if artifact.sha256 not in known and not any(artifact.name.startswith(name) for name in manifest.later):
            yield artifact


def sent_by(task: RunTask) -> int:
    """Return the bytes that all deliveries of a task reported as sent."""
    return sum(usage.sent_bytes for usage in task.usage.values())


def oversent(run: Run) -> str:
    """Return as text which task sent more than permitted; empty for none."""
    for task in run.tasks.values():
        manifest = manifest_of(run, task.role)
        most, sent = manifest.most_bytes if manifest is not None else 0, sent_by(task)
        if sent > most:
            return f"{task.task_id} has sent {sent} bytes to providers of models, and {most} may be sent"
    return ""


def _manifest_words(manifest: TransferManifest) -> str:
    """Return one role's manifest in one line: target, maximum size, and peculiarities."""
    outside = [each for each in manifest.destinations if not each.internal]
    providers = list(dict.fromkeys(each.provider for each in outside))
    models = f"{len(outside)} models" if len(outside) > 1 else f"the model {outside[0].model}"
    return (
        f"the {manifest.role} sends at most {number(manifest.most_bytes)} bytes to {', '.join(providers[:_SHOWN])} ({models}), "
        f"out of {number(manifest.bytes)} bytes of sources ({risk_of(manifest)} risk{_about(manifest)})"
    )


def _about(manifest: TransferManifest) -> str:
    found = [f"{manifest.secrets} secrets"] if manifest.secrets else []
    found += [f"protected: {', '.join(manifest.protected)}"] if manifest.protected else []
    found += [f"{manifest.unscanned_bytes} bytes not looked at for secrets"] if manifest.unscanned_bytes else []
    return f", {', '.join(found)}" if found else ""
