"""What may be done from the board: approve a request, end a run. How it is done is given to it; it decides nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

#: Does work that may need the terminal to itself (a passphrase, a touch of a token), and returns what that returned.
WithTerminal = Callable[[Callable[[], Any]], Any]
#: Approves one request with the words that its rule wants; returns what came of it. Raises GatewrightError.
ApproveRequest = Callable[[str, str, WithTerminal], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Steering:
    """``approve`` is None, and ``may_abort`` false, where this is only for looking. ``signer``: who signs, in words."""

    approve: ApproveRequest | None = None
    may_abort: bool = False
    signer: str = ""
