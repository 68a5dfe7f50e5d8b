"""What an agent's entry says of its sessions: data, so that a further agent needs no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acp.schema import PromptResponse

_MOST = 1 << 53


@dataclass(frozen=True, slots=True)
class SessionRules:
    """``meta`` goes with every ``session/new`` and ``session/load``; ``mode`` is set before the first prompt.

    ``usage_at`` are the names that lead, below ``_meta`` of the answer to a prompt, to the agent's count of tokens, where it
    does not use the protocol's own field. ``standing_approval``: the operator approves beforehand the commands that a contract
    wants approved (``shell: on-request``), as they stay in the box.
    """

    meta: dict[str, Any] | None = None
    mode: str | None = None
    usage_at: tuple[str, ...] = ()
    standing_approval: bool = False

    def usage(self, response: PromptResponse) -> tuple[int, int] | None:
        """Tokens in and out, as the agent counts them; None where it does not say."""
        if response.usage is not None:
            return _tokens(response.usage.input_tokens, response.usage.output_tokens)
        found: object = response.field_meta if self.usage_at else None
        for name in self.usage_at:
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return None
        return _tokens(
            found.get("inputTokens", found.get("input_tokens")), found.get("outputTokens", found.get("output_tokens"))
        )


def _tokens(given: object, made: object) -> tuple[int, int] | None:
    if type(given) is int and type(made) is int and 0 <= given < _MOST and 0 <= made < _MOST:
        return given, made
    return None
