"""Every identity of the bus, connected to a server as it is rendered, each by a plain client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from nats.aio.client import Client

from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus import topology as t
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.operator_mode.files import make_jwt, trust_lines, write_jwt
from gatewright.bus.permissions import Access, access_of
from gatewright.bus.server_config import accounts
from tests.waiting import PATIENCE

Mode = Literal["configuration", "operator"]

NAMED = "publisher-ci"
SIBLING = "worker-2"
EVERYBODY = (*identities.STANDING, identities.MIRROR, NAMED, SIBLING)
#: Publishers by their names, and every stream of a bus that has them.
PUBLISHERS = (identities.DEFAULT_PUBLISHER, "ci")
STREAM_NAMES = (*t.STREAM_NAMES, *(stream.name for publisher in PUBLISHERS for stream in t.publisher_streams(publisher)))
#: Seconds in which a server that would store a message, or refuse it, has done so.
SOON = 0.3


@dataclass
class Party:
    """One identity, connected; what the server complained about."""

    access: Access
    client: Client
    complaints: list[str] = field(default_factory=list)

    def was_refused(self, what: str, subject: str) -> bool:
        return any(f'for {what} to "{subject.lower()}"' in complaint for complaint in self.complaints)


@dataclass
class Bus:
    server: NatsServer
    parties: dict[str, Party]
    operator: JetStreamBus

    async def settle(self) -> None:
        """Wait until the server has judged everything that was sent."""
        for party in self.parties.values():
            await arrived(party.client)
        await asyncio.sleep(SOON)

    async def stored(self) -> list[str]:
        """Every message that any stream holds."""
        await self.settle()
        found = []
        for name in STREAM_NAMES:
            answer = await self.operator.connection.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=PATIENCE)
            for sequence in range(1, msgspec.json.decode(answer.data)["state"]["last_seq"] + 1):
                question = msgspec.json.encode({"seq": sequence})
                got = await self.operator.connection.request(f"$JS.API.STREAM.MSG.GET.{name}", question, timeout=PATIENCE)
                message = msgspec.json.decode(got.data).get("message", {})
                found.append(base64.b64decode(message.get("data", "")).decode())
        return found


async def arrived(client: Client) -> None:
    """Wait until the server has seen all that was sent: the first PING of this client overtakes what it holds back."""
    for _ in range(2):
        await client.flush()


@contextlib.asynccontextmanager
async def open_bus(directory: Path, mode: Mode = "configuration") -> AsyncIterator[Bus]:
    """A server as it is rendered, with one plain client per identity."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(await launch(directory, mode))
        await ensure_topology(server.address(identities.PROVISIONER))
        operator = await JetStreamBus.connect(server.address(identities.OPERATOR), name="operator")
        stack.push_async_callback(operator.close)
        parties = {}
        for identity in EVERYBODY:
            party = Party(access_of(identity, publishers=PUBLISHERS), Client())
            await connect(party, server)
            stack.push_async_callback(party.client.close)
            parties[identity] = party
        yield Bus(server, parties, operator)


async def launch(directory: Path, mode: Mode) -> NatsServer:
    """A server that knows everybody: by its configuration, or by what an operator has signed."""
    keys = directory / "bus"
    identities.make(keys, EVERYBODY)
    if mode == "configuration":
        return await NatsServer.launch(directory / "nats", accounts(identities.public_keys(keys)), keys)
    made = make_jwt(keys, (t.DEFAULT_POOL,), int(time.time()))
    write_jwt(made, directory / "jwt")
    trust = trust_lines(made.trust, directory / "nats" / "accounts")
    return await NatsServer.launch(directory / "nats", {}, directory / "jwt" / "creds", trust=trust)


async def connect(party: Party, server: NatsServer) -> None:
    async def complain(error: Exception) -> None:
        party.complaints.append(str(error).lower())

    credential = identities.load(server.address(party.access.identity).seed or Path())
    await party.client.connect(
        server.url,
        nkeys_seed_str=None if credential.token else credential.seed,
        user_jwt_cb=credential.token.encode if credential.token else None,
        signature_cb=credential.signature if credential.token else None,
        inbox_prefix=f"_INBOX_{party.access.identity}",
        error_cb=complain,
        allow_reconnect=False,
    )
