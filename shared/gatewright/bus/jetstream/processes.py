"""The running processes of roles, as each reports itself when an operator asks all services.

A compromised process can report anything: this helps to find deployment mistakes and proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from nats.aio.msg import Msg

from gatewright.bus.identities import role_of
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.topology import TASK_ROLES
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: Seconds within which a process that is there has answered.
ANSWER_SECONDS = 0.5
#: Key of the number of undecided dead letters, which a gatekeeper reports to those who cannot read them.
DEAD_LETTERS: Final = "dead_letters"
_MOST = 4096
_MOST_DIGITS = 18


class Process(msgspec.Struct, frozen=True):
    """One process; ``metadata`` holds its identity on the bus and the facts that it reports.

    ``heard``: when its answer arrived, in seconds since 1970 by the requester's clock.
    """

    id: str
    name: str = ""
    version: str = ""
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    heard: float = 0.0

    @property
    def role(self) -> str:
        return self.name.removeprefix("gw-")


async def ask_processes(connection: Connection) -> tuple[Process, ...]:
    """Those that answered. Raises BusError; an operator may ask."""
    found: list[Process] = []

    async def hear(raw: Msg) -> None:
        if len(found) < _MOST:
            with contextlib.suppress(UnreadableDocumentError):
                found.append(msgspec.structs.replace(read_json(raw.data, Process), heard=time.time()))

    inbox = str(connection.client.new_inbox())
    subscription = await connection.subscribe(inbox, hear)
    await connection.send("$SRV.PING", b"", reply=inbox)
    await asyncio.sleep(ANSWER_SECONDS)
    await subscription.unsubscribe()
    return tuple(found)


def reported_dead_letters(processes: Iterable[Process]) -> int:
    """Return the highest number of open dead letters that a gatekeeper reports; 0 if none reports any."""
    numbers = (each.metadata.get(DEAD_LETTERS, "") for each in processes if each.role == "gatekeeper")
    return max((int(words) for words in numbers if words.isdecimal() and len(words) <= _MOST_DIGITS), default=0)


def shared_identities(processes: Iterable[Process]) -> Mapping[str, int]:
    """Identities that several processes have, and how many: of the roles that take tasks."""
    named = {(each.metadata.get("identity", ""), each.id) for each in processes}
    count = Counter(identity for identity, _ in named if role_of(identity) in TASK_ROLES)
    return {identity: number for identity, number in sorted(count.items()) if number > 1}
