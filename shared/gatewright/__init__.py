"""Gatewright: governed software delivery by agents, over a NATS message bus."""

__version__ = "0.1.0"
