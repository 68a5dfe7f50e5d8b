"""The agent's standard input and output, as JSON objects."""

from __future__ import annotations

from gatewright.errors import UnavailableError


class AgentWireError(UnavailableError):
    """The agent sent what is none of its protocol, or too much."""
