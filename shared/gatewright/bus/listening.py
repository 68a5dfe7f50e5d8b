"""Handling of incoming broadcasts, shared by both backends."""

from __future__ import annotations

import logging

from gatewright.bus.port import Listener, Message
from gatewright.errors import GatewrightError

log = logging.getLogger(__name__)


async def hear(listener: Listener, message: Message) -> None:
    """Pass a broadcast to its listener; one that it refuses, for example a forged one, must not end the subscription."""
    try:
        await listener(message)
    except GatewrightError as error:
        log.warning("bus: ignored a broadcast on %s: %s", message.subject, error.message)
