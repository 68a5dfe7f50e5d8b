"""Limits of a task's use of its gateway, besides its budget: sizes, counts and times that no honest client reaches."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Bytes and seconds. ``calls`` at a time are answered and ``waiting`` more wait; further ones are refused.

    ``records`` is the number of calls of a task, ``recorded_bytes`` how large their cassette may be.
    """

    request_bytes: int = 32 * _MIB
    reply_bytes: int = 64 * _MIB
    header_count: int = 64
    header_bytes: int = 16_384
    connections: int = 64
    calls: int = 8
    waiting: int = 32
    #: A client that sends no whole request head, or no byte of a body.
    client_idle: float = 30.0
    #: A whole body; and a client that does not take what is sent.
    client_seconds: float = 300.0
    connect_seconds: float = 15.0
    #: Seconds without data from a provider.
    upstream_idle: float = 300.0
    #: Seconds for one call, with all its attempts.
    call_seconds: float = 3600.0
    #: Tries of one model before the next one; the longest wait between two.
    attempts: int = 4
    longest_wait: float = 60.0
    first_wait: float = 0.5
    records: int = 20_000
    recorded_bytes: int = 64 * _MIB
