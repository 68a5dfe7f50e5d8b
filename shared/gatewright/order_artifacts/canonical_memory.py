"""Canonical memory: results of earlier runs on a repository, as references in an artifact for a later run.

An entry is derived from a run's progress packet when its bundle is sealed. The document has the newest entries that fit its
bounds. It states facts about the past and has no authority: it opens no path and passes no gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from gatewright.artifacts import ArtifactPort, stored_digest
from gatewright.contracts import CanonicalMemory, ProgressPacket, codec
from gatewright.contracts.progress import MemoryBounds, MemoryEntry
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError

#: Name of its input artifact. Only the gatekeeper provides one of this name.
MEMORY: Final = "canonical_memory"
#: Maximum length of each list in an entry.
MOST: Final = 12


def entry_of(
    packet: ProgressPacket, packet_sha256: str, manifest_sha256: str, may_disclose: Callable[[str], bool] = lambda _: True
) -> MemoryEntry:
    """Return the memory entry of a sealed run. A path that must not be disclosed is counted, not named.

    Hidden acceptance commands are left out, even their number.
    """
    touched = [path for path in packet.touched.paths if may_disclose(path)][:MOST]
    superseded = {each.supersedes for each in packet.decisions if each.supersedes is not None}
    landed, commands = packet.landed, packet.proofs.commands
    return MemoryEntry(
        run_id=packet.run_id,
        finished_at=packet.finished_at,
        status=packet.status,
        code=packet.code,
        attempts=packet.attempts,
        packet_sha256=packet_sha256,
        manifest_sha256=manifest_sha256,
        touched=tuple(touched),
        more_touched=packet.touched.more + len(packet.touched.paths) - len(touched),
        tests_passed=sum(each.passed for each in commands),
        tests_run=len(commands),
        reason_codes=packet.reason_codes[-MOST:],
        open=tuple(dict.fromkeys(each.reason for each in packet.open))[:MOST],
        decisions=tuple(each.id for each in packet.decisions if each.id not in superseded)[-MOST:],
        task_type=packet.order.task_type,
        landed_commit=(landed.commit or None) if landed else None,
        landed_ref=(landed.ref or None) if landed and may_disclose(landed.ref) and " " not in landed.ref else None,
    )


def newest(entries: Iterable[MemoryEntry], most: int) -> tuple[MemoryEntry, ...]:
    """Return the ``most`` runs that ended last, each once, the newest last; independent of the input order."""
    known = {entry.run_id: entry for entry in entries}
    return tuple(sorted(known.values(), key=lambda entry: (entry.finished_at, entry.run_id))[-most:])


def memory_of(
    repository_sha256: str, publisher: str, entries: Iterable[MemoryEntry], bounds: MemoryBounds
) -> CanonicalMemory | None:
    """Return the document within its bounds, without the oldest entries if necessary. None when nothing is left."""
    kept = newest(entries, bounds.entries)
    while kept:
        memory = CanonicalMemory(repository_sha256=repository_sha256, publisher=publisher, entries=kept)
        if len(codec.encode(memory)) <= bounds.max_bytes:
            return memory
        kept = kept[1:]
    return None


def without_memory(artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
    """Return ``artifacts`` without a memory, so that a publisher can submit them again."""
    return tuple(artifact for artifact in artifacts if artifact.name != MEMORY)


async def read_memory(given: Sequence[Artifact], artifacts: ArtifactPort) -> CanonicalMemory | None:
    """Return the memory of a task; None without one.

    Raises:
        MalformedError: it does not match its digest, or occurs twice (``memory_invalid``).
        ArtifactError: it cannot be fetched.
    """
    named = {(artifact.uri, artifact.sha256.lower()) for artifact in given if artifact.name == MEMORY}
    if not named:
        return None
    if len(named) > 1:
        raise MalformedError(f"there are {len(named)} input artifacts named {MEMORY}", code="memory_invalid")
    uri, digest = next(iter(named))
    if stored_digest(uri) != digest:
        raise MalformedError(f"the artifact {MEMORY} has two different digests", code="memory_invalid")
    try:
        return codec.decode(await artifacts.get(uri), CanonicalMemory)
    except MalformedError as error:
        raise MalformedError(f"the artifact {MEMORY} is no canonical memory: {error.message}", code="memory_invalid") from error


def lines_of(memory: CanonicalMemory) -> Iterator[str]:
    """Yield the memory as lines for a model, newest first. Run ids and times are left out: equal pasts give equal bytes."""
    for ago, entry in enumerate(reversed(memory.entries), 1):
        times = "1 attempt" if entry.attempts == 1 else f"{entry.attempts} attempts"
        yield f"{ago}. {entry.status} ({entry.code}) after {times}" + (f", {entry.task_type}" if entry.task_type else "")
        yield f"   acceptance commands that passed: {entry.tests_passed} of {entry.tests_run}"
        if entry.landed_commit:
            yield f"   landed: {entry.landed_commit}"
        if entry.reason_codes:
            yield f"   refused for: {', '.join(entry.reason_codes)}"
        if entry.open:
            yield f"   left open: {', '.join(entry.open)}"
        if entry.touched:
            more = f" and {entry.more_touched} more" if entry.more_touched else ""
            yield f"   changed: {', '.join(entry.touched)}{more}"
