"""The access of a host: the bus as a publisher, one read-only repository, and answers as documents or refusals."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec
from mcp_types import CallToolResult, TextContent

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.outcome import as_known
from gatewright.app.cli.output import error_document
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.stack.state import read
from gatewright.bus.identities import DEFAULT_PUBLISHER, publisher_identity
from gatewright.client.client import Client
from gatewright.errors import UnavailableError
from gatewright.reasons import advice_for

_PATIENCE = 3.0
_NO_STACK = "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL and the seed of a publisher"
P = ParamSpec("P")
Tools = TypeVar("Tools")
#: ``compact`` fits into a conversation; ``full`` has every known detail.
Detail = Literal["compact", "full"]
#: Maximum characters of a text in one answer.
MAX_TEXT = 60_000


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The access of a host. ``repository``: the only one that it may read, if any. ``read_only``: it may not start runs.

    ``requested_by``: name in the ledger of who aborts runs. ``ordered_by``: the user of the host, where known.
    """

    place: CommandContext
    repository: Path | None = None
    publisher: str = DEFAULT_PUBLISHER
    read_only: bool = False
    requested_by: str = "mcp host"
    ordered_by: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Connect for one question, so that a restarted system is found again.

        The connection to a local stack always has a publisher's identity, so the server limits what a host can read. Raises
        UnavailableError (``no_stack``), BusError.
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
        """Yield the publisher's own runs. Raises as ``client`` does."""
        async with self.client() as client:
            yield LedgerSource(client)


def answer(document: Any) -> CallToolResult:
    """Build the result of a tool. ``document``: any value that msgspec encodes as a JSON object."""
    content: dict[str, Any] = msgspec.to_builtins(document, enc_hook=str)
    return CallToolResult(content=[_text_content(content)], structured_content=content)


def refusal(error: Exception) -> CallToolResult:
    """Build the result of a refused call: code, message, family, faults, and advice where known."""
    fields = error_document(error)
    advice = advice_for(fields["code"])
    document = {"error": {**fields, "advice": advice} if advice else fields}
    return CallToolResult(content=[_text_content(document)], structured_content=document, is_error=True)


def refuse_known_errors(
    tool: Callable[Concatenate[Tools, P], Awaitable[CallToolResult]],
) -> Callable[Concatenate[Tools, P], Awaitable[CallToolResult]]:
    """Convert known errors of a tool into refusals. Any other error is a defect, which the protocol's library reports."""

    @functools.wraps(tool)
    async def guarded(self: Tools, /, *args: P.args, **kwargs: P.kwargs) -> CallToolResult:
        try:
            return await tool(self, *args, **kwargs)
        except Exception as error:
            known = as_known(error)
            if known is None:
                raise
            return refusal(known)

    return guarded


def excerpt(text: str, first_line: int, lines: int) -> dict[str, Any]:
    """Return lines of a text, from ``first_line`` (counted from 1).

    The result has ``next_line`` if there are more lines, and ``cut`` if they were too long.
    """
    every = text.splitlines()
    chosen = every[first_line - 1 : first_line - 1 + lines]
    kept, room = [], MAX_TEXT
    for line in chosen:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    cut = len(kept) < len(chosen)
    if cut and not kept:  # one line that exceeds the limit of an answer
        kept = [chosen[0][:MAX_TEXT]]
    following = first_line + len(kept)
    return {
        "first_line": first_line,
        "total_lines": len(every),
        "text": "\n".join(kept),
        "next_line": following if following <= len(every) else None,
        "cut": cut,
    }


def _text_content(document: dict[str, Any]) -> TextContent:
    return TextContent(type="text", text=msgspec.json.encode(document).decode())
