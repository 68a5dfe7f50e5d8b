"""What both backends do with a broadcast that came in."""

from __future__ import annotations

import logging

from gatewright.bus.port import Listener, Message
from gatewright.errors import GatewrightError

log = logging.getLogger(__name__)


async def hear(listener: Listener, message: Message) -> None:
    """Hand a broadcast to its listener. One that is refused, as a forged one is, must not end the listening."""
    try:
        await listener(message)
    except GatewrightError as error:
        log.warning("bus: a broadcast on %s was not understood: %s", message.subject, error.message)
