"""How much a transfer to the providers of models risks, who has to approve it, and what a task may send then. Pure."""

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
from gatewright.run.state import Run, RunTask

#: The policy file; a run that was accepted under one has manifests.
FILE = "transfers.json"
#: What the run makes itself and a task of each role may be given, by the beginning of its name; ``questions`` is what people
#: answered to those of the run. All of it was looked at for secrets when it was made: patches by the gates, outputs and reports
#: by the roles that wrote them, answers when they came in.
LATER: Mapping[TransferRole, tuple[str, ...]] = {"worker": ("failed.", "questions"), "reviewer": ("candidate.",)}
_SHOWN = 8
#: Characters of the name of a source.
_NAME = 200


def risk_of(manifest: TransferManifest) -> TransferRisk:
    """1. a secret among the sources, or a protected class that the task is about: high  2. more bytes than are of low risk, or
    some that were not looked at: medium  3. low."""
    if manifest.secrets or manifest.protected:
        return "high"
    if manifest.bytes > manifest.low_risk_bytes or manifest.unscanned_bytes:
        return "medium"
    return "low"


def asks_person(manifest: TransferManifest) -> bool:
    """Whether a person has to approve it: not where all stays with the operator, nor low risk where policy lets that pass.

    The risk is told anew: what a document says of itself lets nothing pass.
    """
    if all(each.internal for each in manifest.destinations):
        return False
    return manifest.mode == "manual" or risk_of(manifest) != "low"


def manifest_digest(manifest: TransferManifest) -> str:
    return hashlib.sha256(codec.encode(manifest)).hexdigest()


def transfer_words(run: Run) -> str:
    """What a person is asked about, each manifest by its digest; empty when there is nothing to ask."""
    asked = [each for each in run.transfers if asks_person(each)]
    digests = ", ".join(manifest_digest(each) for each in asked)
    return f"manifests {digests}: {'; '.join(map(_manifest_words, asked))}" if asked else ""


def asked_transfers(run: Run) -> tuple[AskedTransfer, ...]:
    """What a person is asked to approve, as it is shown and signed."""
    return tuple(_asked_transfer(each) for each in run.transfers if asks_person(each))


def transfer_lines(transfers: Iterable[AskedTransfer]) -> Iterator[str]:
    """What would be sent, for people: to which provider, out of what, how much at most, and some of the paths."""
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
    """That of a role; None where none was made."""
    return next((each for each in run.transfers if each.role == role), None)


def leave_for(run: Run, role: str, artifacts: Iterable[Artifact] = (), sent: int = 0) -> TransferLeave | None:
    """What a task of ``role`` may send that is given ``artifacts`` and has ``sent`` so many bytes already.

    None where no manifest was made for it, or it is given what the manifest does not name. Work is given out only when all is
    approved.
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
    """What a task may send, what earlier deliveries of it have sent taken off."""
    given = task.contract.inputs.artifacts if task.contract is not None else ()
    return leave_for(run, task.role, given, sent_by(task))


def unnamed_artifacts(manifest: TransferManifest, artifacts: Iterable[Artifact]) -> Iterator[Artifact]:
    """Those that the manifest names neither by their digest nor as made later by the run."""
    known = {each.digest for each in manifest.sources}
    for artifact in artifacts:
        if artifact.sha256 not in known and not any(artifact.name.startswith(name) for name in manifest.later):
            yield artifact


def sent_by(task: RunTask) -> int:
    """Bytes that all deliveries of a task have sent by its leave, as far as they were reported."""
    return sum(usage.sent_bytes for usage in task.usage.values())


def oversent(run: Run) -> str:
    """In words which task has sent more than it may; empty while none has."""
    for task in run.tasks.values():
        manifest = manifest_of(run, task.role)
        most, sent = manifest.most_bytes if manifest is not None else 0, sent_by(task)
        if sent > most:
            return f"{task.task_id} has sent {sent} bytes to providers of models, and {most} may be sent"
    return ""


def _manifest_words(manifest: TransferManifest) -> str:
    """One role on one line: to whom, how much at most, and what is special about it."""
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
