"""The gateway of one pull: an HTTP proxy on a socket that only the box reaches, and the way from there to the registries."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from gatewright.clock import Clock
from gatewright.egress.allowed import AllowedAddresses
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressRecord


class EgressGateway:
    """The gateway of one pull. One is made for each pull.

    ``certificate``: the certificate authority of this pull (PEM), which the installer has to trust.

    Args:
        policy: the registries and limits.
        allowed: the addresses that may be read.
        record: receives each request after it ended (``EgressLog.append``).
        clock: gives the time of records and certificates.
        secrets: the values of the credentials that sources name.
        extra: further sources, for example the user's own registries.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        allowed: AllowedAddresses,
        record: Callable[[EgressRecord], None],
        *,
        clock: Clock,
        secrets: Mapping[str, str],
        extra: tuple[EgressSource, ...] = (),
    ) -> None:
        self.certificate = b""
        raise NotImplementedError

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled; then every connection is closed."""
        raise NotImplementedError
