"""What an agent's entry says of its sessions: data, so that a further agent needs no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acp.schema import PromptResponse

#: Tokens in and out.
Tokens = tuple[int, int]
NOTHING: Final[Tokens] = (0, 0)
_MOST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class SessionRules:
    """``meta`` goes with every ``session/new`` and ``session/load``; ``mode`` is set before the first prompt.

    ``usage_at`` are the names that lead, below ``_meta`` of the answer to a prompt or of a part of a message, to the agent's
    count of tokens, where it does not use the protocol's own field. ``version`` of the protocol is what is asked for;
    ``accepts_older``: an agent that knows version 1 alone is spoken to in that.
    """

    meta: dict[str, Any] | None = None
    mode: str | None = None
    usage_at: tuple[str, ...] = ()
    version: int = 1
    accepts_older: bool = False

    def usage(self, response: PromptResponse) -> Tokens | None:
        """Tokens of a turn, as the agent counts them at its end; None where it does not say."""
        if response.usage is not None:
            return tokens_of(response.usage.input_tokens, response.usage.output_tokens)
        return self.below(response.field_meta)

    def add(self, counted: Tokens, meta: Mapping[str, Any] | None) -> Tokens:
        """``counted`` and those that a part of a message says it took: some agents count nowhere else."""
        more = self.below(meta) or NOTHING
        return tokens_of(counted[0] + more[0], counted[1] + more[1]) or counted

    def below(self, meta: Mapping[str, Any] | None) -> Tokens | None:
        """Tokens that ``usage_at`` leads to; None where there are none."""
        found: object = meta if self.usage_at else None
        for name in self.usage_at:
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return None
        given = found.get("inputTokens", found.get("input_tokens"))
        return tokens_of(given, found.get("outputTokens", found.get("output_tokens")))


def tokens_of(given: object, made: object) -> Tokens | None:
    """Tokens in and out, where both are numbers of such."""
    if type(given) is int and type(made) is int and 0 <= given < _MOST and 0 <= made < _MOST:
        return given, made
    return None
