"""Where a host's questions go: the bus as a publisher reaches it, the home folder, and one repository to look into."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.stack.state import read
from gatewright.bus.identities import DEFAULT_PUBLISHER, publisher_identity
from gatewright.client.client import Client
from gatewright.errors import UnavailableError

_PATIENCE = 3.0
_NO_STACK = "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL and the seed of a publisher"


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What a host is given. ``repository``: the only one that it may read, if any. ``read_only``: it may begin nothing.

    ``requested_by``: who ends runs, in the words of the ledger. ``ordered_by``: the person whose host this is, where known.
    """

    place: CommandContext
    repository: Path | None = None
    publisher: str = DEFAULT_PUBLISHER
    read_only: bool = False
    requested_by: str = "mcp host"
    ordered_by: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connection for one question, so that a system that was started anew is found again.

        Of a stack on this host always as a publisher: what a host may see is then held by the server, not by this program.
        Raises UnavailableError (``no_stack``), BusError.
        """
        address = self.place.bus
        if address is None:
            state = read(self.place.home)
            if state is None:
                raise UnavailableError(_NO_STACK, code="no_stack")
            address = state.address(publisher_identity(self.publisher))
        async with Client.connect(address, requested_by=self.requested_by, patience=_PATIENCE) as client:
            yield client

    @contextlib.asynccontextmanager
    async def runs(self) -> AsyncIterator[LedgerSource]:
        """The publisher's own runs. Raises as ``client`` does."""
        async with self.client() as client:
            yield LedgerSource(client)
