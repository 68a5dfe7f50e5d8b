"""Session rules in an agent's entry: data, so that a further agent needs no code."""

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
    """``meta`` is sent with every ``session/new`` and ``session/load``; ``mode`` is set before the first prompt.

    ``usage_at`` are the keys that lead, below ``_meta`` of the answer to a prompt or of a part of a message, to the agent's
    token count, where it does not use the protocol's own field. ``version`` is the requested protocol version;
    ``accepts_older``: version 1 is used with an agent that knows no other.
    """

    meta: dict[str, Any] | None = None
    mode: str | None = None
    usage_at: tuple[str, ...] = ()
    version: int = 1
    accepts_older: bool = False

    def usage(self, response: PromptResponse) -> Tokens | None:
        """Return the tokens of a turn, as counted by the agent at its end; None where it does not report them."""
        if response.usage is not None:
            return tokens_of(response.usage.input_tokens, response.usage.output_tokens)
        return self.below(response.field_meta)

    def add(self, counted: Tokens, meta: Mapping[str, Any] | None) -> Tokens:
        """Add the tokens that a part of a message reports: some agents report them nowhere else."""
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
