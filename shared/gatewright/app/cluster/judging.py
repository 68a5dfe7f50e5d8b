"""The faults of an installation, by its collected state: each finding with its severity, code, and advice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from gatewright.app.cluster.asking import ClusterLook, StreamLook
from gatewright.bus.jetstream.processes import Process, shared_identities
from gatewright.bus.jetstream.queue_depths import QueueDepth
from gatewright.bus.topology import DEFAULT_CLASS, ROLES, TASK_CLASSES, task_queue
from gatewright.reasons import advice_for
from gatewright.version import __version__

Severity = Literal["error", "warning", "info"]

#: The first NATS server version that can pause consumers and enforces limits per subject.
OLDEST_SERVER = (2, 11)
LEAST_PAYLOAD = 8 << 20
LEAST_FREE = 1 << 30
#: Parts of its limit from which on a stream is nearly full, and full.
NEARLY, FULL = 0.8, 0.98
#: Seconds by which clocks may differ: the round trip, and what NTP leaves.
SKEW = 2.0
#: Seconds that the oldest message of a class may wait, as the alerts have it.
PATIENCE = {"high": 300.0, "low": 14_400.0}
USUAL_PATIENCE = 1800.0
SOON = 14 * 86_400.0


class ClusterFinding(msgspec.Struct, frozen=True):
    """``about``: a role, a stream, a process. ``hint`` is the advice in the table of reasons."""

    severity: Severity
    code: str
    about: str
    detail: str
    hint: str


def judge(look: ClusterLook) -> tuple[ClusterFinding, ...]:
    """Return all deviations, the most severe first; none when all is well."""
    found = [*_roles(look.processes), *_streams(look.streams), *_queues(look.queues), *_server(look)]
    found += [_finding("error", "consumer_missing", what, "it does not exist") for what in look.missing]
    if look.dead_letters:
        found.append(_finding("warning", "dead_letters_open", "DEAD", f"{look.dead_letters} wait for a decision"))
    weight = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda each: (weight[each.severity], each.code, each.about)))


def _finding(severity: Severity, code: str, about: str, detail: str) -> ClusterFinding:
    return ClusterFinding(severity, code, about, detail, advice_for(code) or "")


def _roles(processes: Sequence[Process]) -> Iterator[ClusterFinding]:
    ours = [each for each in processes if each.role in ROLES]
    there = Counter(each.role for each in ours)
    for role in ROLES:
        if not there[role]:
            yield _finding("error", "role_silent", role, "no process answers")
    if there["gatekeeper"] == 1:
        yield _finding("info", "gatekeeper_single", "gatekeeper", "there is one: no other goes on with runs when it dies")
    versions = Counter(each.version for each in ours)
    if len(versions) > 1:
        words = ", ".join(f"{version}: {count} processes" for version, count in sorted(versions.items()))
        yield _finding("warning", "versions_differ", "roles", f"{words}; this command is {__version__}")
    for identity, count in shared_identities(ours).items():
        yield _finding("info", "identity_shared", identity, f"{count} processes share it: each sees what the others are given")
    for each in ours:
        yield from _process(each)


def _process(process: Process) -> Iterator[ClusterFinding]:
    who, metadata = f"{process.role} {process.id}", process.metadata
    if metadata.get("lacks"):
        yield _finding("error", "role_not_ready", who, metadata["lacks"])
    free = metadata.get("disk_free", "")
    if free.isdecimal() and int(free) < LEAST_FREE:
        yield _finding("warning", "disk_low", who, f"{int(free) >> 20} MiB are free on its disk")
    skew = _skew(process)
    if skew > SKEW:
        yield _finding("warning", "clock_skew", who, f"its clock is {skew:.0f} s from that of this host")


def _skew(process: Process) -> float:
    try:
        clock = datetime.fromisoformat(process.metadata.get("clock", "")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return abs(clock - process.heard)


def _streams(streams: Iterable[StreamLook]) -> Iterator[ClusterFinding]:
    for stream in streams:
        if stream.fullness >= NEARLY:
            severity: Severity = "error" if stream.fullness >= FULL else "warning"
            words = f"{stream.fullness:.0%} of what it may keep: {stream.messages} messages, {stream.size >> 20} MiB"
            yield _finding(severity, "stream_nearly_full", stream.name, words)
        if not stream.leader:
            yield _finding("error", "stream_leaderless", stream.name, "no server of the cluster leads it")
        if stream.behind:
            yield _finding("warning", "replica_behind", stream.name, f"away or not up to date: {', '.join(stream.behind)}")
        if stream.clustered and stream.replicas == 1:
            yield _finding("warning", "stream_single_copy", stream.name, "one server of the cluster has it")


def _queues(queues: Sequence[QueueDepth]) -> Iterator[ClusterFinding]:
    # A process serves the classes of a pool in turn: its pull is open at one of them.
    served = {task_queue(each.queue.subject) for each in queues if each.pulls or each.in_hand or each.paused}
    for each in queues:
        longest = f"{each.oldest:.0f} s" + (" at most" if each.at_most else "")
        name, waits = each.queue.durable, f"{each.waiting} wait, the oldest for {longest}"
        last = each.queue.subject.rpartition(".")[2]
        if each.waiting and task_queue(each.queue.subject) not in served:
            yield _finding("error", "queue_unattended", name, f"{waits}, and no process asks for them")
        elif (
            each.waiting
            and not each.at_most
            and each.oldest > PATIENCE.get(last if last in TASK_CLASSES else DEFAULT_CLASS, USUAL_PATIENCE)
        ):
            yield _finding("warning", "queue_old", name, waits)
        if each.paused:
            yield _finding("info", "queue_paused", name, f"an operator holds it back; {each.waiting} wait")


def _server(look: ClusterLook) -> Iterator[ClusterFinding]:
    numbers = tuple(int(part) for part in look.server.split("-")[0].split(".")[:2] if part.isdecimal())
    if numbers and numbers < OLDEST_SERVER:
        words = f"version {look.server}, and {OLDEST_SERVER[0]}.{OLDEST_SERVER[1]} is needed"
        yield _finding("error", "server_too_old", "nats-server", words)
    if look.max_payload < LEAST_PAYLOAD:
        words = f"its messages have {look.max_payload} bytes at most, and {LEAST_PAYLOAD} are needed"
        yield _finding("error", "server_payload_small", "nats-server", words)
    if look.offered is not None and look.offered.limit and look.offered.used > NEARLY * look.offered.limit:
        words = f"{look.offered.used >> 20} of {look.offered.limit >> 20} MiB of its account are used"
        yield _finding("warning", "account_nearly_full", "nats-server", words)
    if look.expires and look.expires < look.now + SOON:
        days = (look.expires - look.now) / 86_400
        yield _finding("warning" if days > 0 else "error", "credential_expires", "this command", f"in {days:.1f} days")
