"""The actions of the board: approve a request, abort a run. Their implementation is passed in; it decides nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

#: Does work that may need the terminal to itself (a passphrase, a touch of a token), and returns what that returned.
WithTerminal = Callable[[Callable[[], Any]], Any]
#: Approves one request with the phrase of its rule; returns the result. Raises GatewrightError.
ApproveRequest = Callable[[str, str, WithTerminal], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Steering:
    """Without ``approve`` and ``may_abort`` the board is read-only. ``signer``: a description of the signer."""

    approve: ApproveRequest | None = None
    may_abort: bool = False
    signer: str = ""
