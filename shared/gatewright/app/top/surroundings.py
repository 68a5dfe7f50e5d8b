"""The state of the system around the runs: work queues, merge queues, and responding processes. Read-only."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.processes import ask_processes
from gatewright.bus.jetstream.queue_control import QueueState, queues, state_of
from gatewright.bus.topology import ROLES
from gatewright.client.client import Client
from gatewright.contracts.merge_queue import MergeQueueView
from gatewright.errors import GatewrightError


@dataclass(frozen=True, slots=True)
class TopSurroundings:
    """``processes``: how many of each role answer. ``refused``: why it is not known, empty where it is.

    ``merge_refused``: the same for the merge queues, which the gatekeeper lists.
    """

    queues: tuple[QueueState, ...] = ()
    processes: Mapping[str, int] = field(default_factory=dict)
    refused: str = "not asked yet"
    merge_queues: tuple[MergeQueueView, ...] = ()
    merge_refused: str = "not asked yet"

    @property
    def missing(self) -> tuple[str, ...]:
        """Roles of which no process answers."""
        return tuple(role for role in ROLES if role not in self.processes) if not self.refused else ()


async def look_around(client: Client) -> TopSurroundings:
    """Return the state, as far as this identity may see it, with the reasons why parts are missing."""
    system = await _system_around(client)
    if isinstance(client.bus, JetStreamBus) and not client.bus.may_request:
        return replace(system, merge_refused=system.refused)
    try:
        return replace(system, merge_queues=await client.merge_queues(), merge_refused="")
    except GatewrightError as error:
        return replace(system, merge_refused=f"{error.message} [{error.reason}]")


async def _system_around(client: Client) -> TopSurroundings:
    """Return queues and processes for an operator; for another identity or another bus, the reason why there are none."""
    if not isinstance(client.bus, JetStreamBus):
        return TopSurroundings(refused="only a NATS server lists queues")
    if not client.bus.may_request:
        return TopSurroundings(refused="a watcher sees the ledger alone: an operator's seed sees queues (GATEWRIGHT_NATS_SEED)")
    connection = client.bus.connection
    try:
        found = await asyncio.gather(*(state_of(connection, each) for each in await queues(connection)))
        processes = await ask_processes(connection)
    except GatewrightError as error:
        return TopSurroundings(refused=f"{error.message} [{error.reason}]: an operator's seed sees them (GATEWRIGHT_NATS_SEED)")
    count = Counter(sorted(each.role for each in processes))
    return TopSurroundings(tuple(state for state in found if state is not None), dict(count), "")
