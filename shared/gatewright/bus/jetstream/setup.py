"""Setup of the bus as the topology defines it: streams, durable consumers and the key-value bucket.

Explicit and idempotent: it creates what is missing and updates what differs (only the provisioner may update). A difference
that the server cannot update stops the start with an error that names it. Settings outside the topology (replicas, limits
on size) stay as an operator set them. Any number of processes may do this at the same time.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gatewright.bus.identities import PROVISIONER, BusAddress
from gatewright.bus.jetstream.api import MISSING, ApiReply
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.queue_depths import reserved_bytes
from gatewright.bus.jetstream.rights import known_publishers
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Bus
from gatewright.bus.stream_settings import StreamSettings
from gatewright.bus.topology import (
    DEFAULT_PUBLISHER,
    LEDGER,
    LOCK_BUCKET,
    LOCK_STREAM,
    Consumer,
    StreamSpec,
    consumers,
    intake_consumers,
    intake_publisher,
    publisher_streams,
)
from gatewright.bus.topology import streams as topology_streams
from gatewright.errors import BusError, ConfigurationError, HostError
from gatewright.host_errors import BUS_FULL
from gatewright.pause import pause_unless

Config = dict[str, Any]

#: Headers of a message are commands to the server, and any publisher can give them: to remove what lay there before, to forget
#: a message after a time, to deliver it later, to count, to bundle. No stream of ours obeys any of them.
_DEAF: Config = {
    "allow_rollup_hdrs": False,
    "allow_msg_ttl": False,
    "allow_msg_schedules": False,
    "allow_msg_counter": False,
    "allow_atomic": False,
}

_NANOSECONDS = 1_000_000_000
_PATIENCE_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 0.05
#: Seconds between checks. When several processes set up a server at once, one may be refused because of another's stream
#: before it can see that stream.
_PAUSES = (0.0, 0.02, 0.05, 0.1, 0.2)
#: Replies of a server or account that has too little storage to reserve.
_NO_STORAGE = frozenset({"jetstream_10047", BUS_FULL})


#: Replies when a stream needs more replicas than there are servers: a single server, or a small cluster.
_NO_SERVERS = frozenset({"jetstream_10074", "jetstream_10005"})


class _ConfigReply(ApiReply):
    config: Config = msgspec.field(default_factory=dict)


async def ensure_topology(
    bus: str | BusAddress | JetStreamBus | MemoryBus,
    *,
    queues: Iterable[Consumer] | None = None,
    streams: Iterable[StreamSpec] | None = None,
    replicas: int | None = None,
    settings: StreamSettings | None = None,
) -> Mapping[str, int]:
    """Create or update everything that a system with these queues needs.

    Args:
        bus: a connected bus, or the address of a server to connect to for this call.
        queues: durable consumers; default: every role with the default pool.
        streams: default: those of the topology, for the number of ledger partitions that the bus is configured with.
        replicas: servers of a cluster that keep each stream; None leaves it unchanged (one for a new stream).
        settings: sizes and ages set by the operator; only the provisioner changes an existing stream.

    Returns:
        Name -> bytes of the streams that are smaller than in the topology, because the server lacks storage.

    Raises:
        BusError: the server cannot be reached.
        ConfigurationError: a difference that cannot be updated, ``stream_replicas_too_many`` (fewer servers than
            ``replicas``), ``ledger_partitions_differ`` (the ledger has another number of streams).
        HostError: ``bus_storage_too_small``: the streams do not fit even at their least size.
    """
    queues = consumers() if queues is None else tuple(queues)
    settings = settings or StreamSettings()
    if isinstance(bus, MemoryBus):
        bus.server.ensure(topology_streams(bus.layout.partitions) if streams is None else streams, queues)
        return {}
    if isinstance(bus, JetStreamBus):
        wanted = topology_streams(bus.layout.partitions) if streams is None else tuple(streams)
        return await _ensure(bus.connection, wanted, queues, replicas, settings)
    connected = await JetStreamBus.connect(bus, name="setup")
    try:
        return await ensure_topology(connected, queues=queues, streams=streams, replicas=replicas, settings=settings)
    finally:
        await connected.close()


async def ensure_queues(bus: Bus, queues: Iterable[Consumer]) -> None:
    """Create or update these consumers, of streams that exist. Raises BusError, ConfigurationError."""
    if isinstance(bus, JetStreamBus):
        await asyncio.gather(*(_KeptConsumer(bus.connection, queue).agree() for queue in queues))


async def await_queues(
    bus: JetStreamBus, queues: Iterable[Consumer], stop: asyncio.Event, missing: Callable[[str], None]
) -> None:
    """Return when these consumers exist or ``stop`` is set; call ``missing`` with the name of each that is awaited.

    The gatekeeper or an operator sets up the bus; a role has no right to. Raises BusError when the server cannot be
    reached.
    """
    for queue in queues:
        while not stop.is_set() and not await _exists(bus.connection, queue):
            missing(queue.durable)
            await pause_unless(stop, _LOOK_AGAIN_SECONDS)


async def _exists(connection: Connection, queue: Consumer) -> bool:
    call = f"CONSUMER.INFO.{queue.stream}.{queue.durable}"
    try:
        await connection.patiently(lambda: connection.api(call, {}, ApiReply), _PATIENCE_SECONDS)
    except BusError as error:
        if error.reason in MISSING:
            return False
        raise
    return True


async def _ensure(
    connection: Connection,
    streams: tuple[StreamSpec, ...],
    queues: tuple[Consumer, ...],
    replicas: int | None,
    settings: StreamSettings,
) -> Mapping[str, int]:
    copies = {} if replicas is None else {"num_replicas": replicas}
    if any(stream.name == LEDGER for stream in streams):
        await check_partitions(connection)
    publishers = await known_publishers(connection, _PATIENCE_SECONDS)
    own = (stream for publisher in publishers for stream in publisher_streams(publisher))
    streams = tuple(settings.apply_to(stream) for stream in (*streams, *own))
    queues = tuple(dict.fromkeys((*queues, *intake_consumers(publishers))))

    async def agree(configs: Iterable[Config]) -> None:
        kept = ({**config, **copies} for config in configs)
        making = (_Kept(connection, f"STREAM.{{}}.{config['name']}", config).agree() for config in kept)
        # Await all of them: a retry with less must not collide with calls that still run.
        for outcome in await asyncio.gather(*making, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    bounded = tuple(stream for stream in streams if stream.least_bytes > 0)
    await agree((*(stream_config(each) for each in streams if each not in bounded), lock_bucket_config()))
    sizes = await _reserve_streams(bounded, agree)
    await asyncio.gather(*(_KeptConsumer(connection, queue).agree() for queue in queues))
    return {stream.name: sizes[stream.name] for stream in bounded if sizes[stream.name] < stream.max_bytes}


async def check_partitions(connection: Connection) -> None:
    """Check that the ledger has the configured number of streams, which cannot change: a run's stream follows from it.

    Raises ConfigurationError (``ledger_partitions_differ``), BusError.
    """
    for subject in ((await _server_config(connection, f"STREAM.INFO.{LEDGER}")) or {}).get("subjects", ()):
        LedgerLayout(connection.address.partitions).check(subject)


async def _server_config(connection: Connection, call: str) -> Config | None:
    """Return the server's configuration of the stream or consumer in ``call``; None if it is missing. Raises BusError."""
    try:
        reply = await connection.patiently(lambda: connection.api(call, {}, _ConfigReply), _PATIENCE_SECONDS)
    except BusError as error:
        if error.reason in MISSING:
            return None
        raise
    return reply.config


async def _reserve_streams(
    streams: Sequence[StreamSpec], agree: Callable[[Iterable[Config]], Awaitable[None]]
) -> Mapping[str, int]:
    """Create streams that reserve storage, halving all sizes until they fit; return the bytes of each."""
    for sizes in halved_sizes(streams):
        try:
            for wave in _waves(streams):
                await agree(stream_config(dataclasses.replace(stream, max_bytes=sizes[stream.name])) for stream in wave)
        except BusError as error:
            if error.reason not in _NO_STORAGE:
                raise
        else:
            return sizes
    needed = reserved_bytes(streams)[1] >> 20
    raise HostError(
        f"the NATS server has not the {needed} MiB that its streams need at the least: free some space on its volume and "
        "start it anew (it gives out three quarters of what is free then), or raise the limit of the server or the account",
        code="bus_storage_too_small",
    )


def _waves(streams: Sequence[StreamSpec]) -> tuple[Sequence[StreamSpec], Sequence[StreamSpec]]:
    """Split streams into two steps: intakes of named publishers come last, after the shared intake of older versions is
    narrowed."""
    named = tuple(stream for stream in streams if intake_publisher(stream.name) not in (None, DEFAULT_PUBLISHER))
    return tuple(stream for stream in streams if stream not in named), named


def halved_sizes(streams: Sequence[StreamSpec]) -> Iterator[Mapping[str, int]]:
    """The sizes to try, the wanted ones first: stream -> bytes. The last ones are the least of each."""
    halvings = 0
    while True:
        sizes = {stream.name: max(stream.least_bytes, stream.max_bytes >> halvings) for stream in streams}
        yield sizes
        if all(sizes[stream.name] <= stream.least_bytes for stream in streams):
            return
        halvings += 1


class _Kept:
    """Something that the server keeps: a stream. ``call`` has a place for the verb."""

    def __init__(self, connection: Connection, call: str, wanted: Config) -> None:
        self._connection = connection
        self._call = call
        self._wanted = wanted
        identity = connection.credential.identity if connection.credential else PROVISIONER
        self._may_update = identity == PROVISIONER
        #: The provisioner determined the available storage and applied the operator's sizes and ages.
        self._given = frozenset() if self._may_update else frozenset({"max_bytes", "max_age"})

    @property
    def _label(self) -> str:
        return self._call.format("").replace("..", " ").strip(".")

    async def agree(self) -> None:
        """1. Look. 2. Write what is missing or differs. 3. When refused, look again: another may have done it."""
        refusal: BusError | None = None
        for seconds in _PAUSES:
            await asyncio.sleep(seconds)
            actual = await self._read_config()
            if actual is not None and not self._differences(actual):
                return
            if actual is not None and not self._may_update:
                differences = "; ".join(self._differences(actual))
                raise ConfigurationError(
                    f"{self._label} of the NATS server is not as this version needs it: {differences}; "
                    "bring it up to date with `gatewright topology --apply`, as the identity provisioner",
                    code="topology_outdated",
                )
            try:
                await (self._create() if actual is None else self._update({**actual, **self._wanted}))
            except BusError as error:
                no_room_twice = refusal is not None and {refusal.reason, error.reason} <= _NO_STORAGE
                refusal = error
                if no_room_twice:
                    break
            else:
                return
        if refusal is not None and refusal.reason in _NO_STORAGE:
            raise refusal
        if refusal is not None and refusal.reason in _NO_SERVERS and self._wanted.get("num_replicas", 1) > 1:
            raise ConfigurationError(
                f"{self._wanted['num_replicas']} servers are to keep {self._label}, and the bus has not so many: lower "
                f"GATEWRIGHT_STREAM_REPLICAS (--replicas), or add servers ({refusal.message})",
                code="stream_replicas_too_many",
            )
        actual = await self._read_config()
        if actual is not None and refusal is not None:
            words = "; ".join(self._differences(actual))
            raise ConfigurationError(f"{self._label} of the NATS server: {words} ({refusal.message})")
        if refusal is not None:
            raise refusal

    async def _create(self) -> None:
        await self._call_api(self._call.format("CREATE"), self._wanted)

    async def _update(self, config: Config) -> None:
        await self._call_api(self._call.format("UPDATE"), config)

    async def _call_api(self, call: str, body: Config) -> None:
        await self._connection.patiently(lambda: self._connection.api(call, body, ApiReply), _PATIENCE_SECONDS)

    async def _read_config(self) -> Config | None:
        return await _server_config(self._connection, self._call.format("INFO"))

    def _differences(self, actual: Config) -> list[str]:
        """Absent, zero and false are one to the server."""
        return [
            f"{key} is {actual.get(key)!r} and must be {value!r}"
            for key, value in self._wanted.items()
            if key not in self._given and (actual.get(key) or None) != (value or None)
        ]


class _KeptConsumer(_Kept):
    """A durable consumer; one server call creates or updates it, and states which is meant."""

    def __init__(self, connection: Connection, queue: Consumer) -> None:
        super().__init__(connection, f"CONSUMER.{{}}.{queue.stream}.{queue.durable}", consumer_config(queue))
        self._queue = queue
        # Creating and updating a consumer is one call to the server.
        self._may_update = True

    async def _create(self) -> None:
        await self._write_consumer("create", self._wanted)

    async def _update(self, config: Config) -> None:
        await self._write_consumer("update", config)

    async def _write_consumer(self, action: str, config: Config) -> None:
        call = f"{self._call.format('CREATE')}.{self._queue.subject}"
        await self._call_api(call, {"stream_name": self._queue.stream, "config": config, "action": action})


def stream_config(stream: StreamSpec) -> Config:
    """Return the server's form of a stream of the topology. ``discard: new``: a full stream refuses and drops nothing."""
    return {
        "name": stream.name,
        "description": stream.description,
        "subjects": list(stream.subjects),
        "retention": stream.retention,
        "storage": "file",
        "discard": "new",
        "max_msg_size": stream.max_message_bytes,
        "duplicate_window": int(stream.dedupe_seconds * _NANOSECONDS),
        "deny_delete": stream.append_only,
        "allow_direct": stream.direct,
        **_DEAF,
        **_limits(stream),
        **({"republish": {"src": stream.subjects[0], "dest": stream.repeated}} if stream.repeated else {}),
    }


def _limits(stream: StreamSpec) -> Config:
    """Those that the topology sets; the others stay as the operator has set them."""
    wanted = {"max_msgs": stream.max_messages, "max_msgs_per_subject": stream.max_per_subject, "max_bytes": stream.max_bytes}
    limits: Config = {name: limit for name, limit in wanted.items() if limit > 0}
    limits |= {"discard_new_per_subject": True} if stream.max_per_subject > 0 else {}
    return limits | ({"max_age": int(stream.keep_seconds * _NANOSECONDS)} if stream.keep_seconds > 0 else {})


def consumer_config(queue: Consumer) -> Config:
    """The server's form of a work queue, with the settings off that would make it something else."""
    return {
        "durable_name": queue.durable,
        "name": queue.durable,
        "filter_subject": queue.subject,
        "filter_subjects": [],
        "deliver_policy": "all",
        "deliver_subject": "",
        "replay_policy": "instant",
        "ack_policy": "explicit",
        "ack_wait": int(queue.ack_wait * _NANOSECONDS),
        "backoff": [],  # it would take the place of ack_wait
        "max_deliver": queue.max_deliver,
        "max_ack_pending": queue.max_ack_pending,
        "headers_only": False,
    }


def lock_bucket_config() -> Config:
    """The stream of a key-value bucket (NATS ADR-8) that remembers the last value only."""
    return {
        "name": LOCK_STREAM,
        "description": "path locks, one key per repository",
        "subjects": [f"$KV.{LOCK_BUCKET}.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_msgs_per_subject": 1,
        "deny_delete": True,
        **_DEAF,
    }
