"""The calls that one task may make: the models by their client names, the substitutes of each, and the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.contracts.vocabulary import Budget


@dataclass(frozen=True, slots=True)
class ModelGrant:
    """``routes``: by each requestable name, the models to try, in order; the first is the default.

    ``paths`` are literal texts of this run (a home, a folder) in requests, each with its word in the canonical form: a
    cassette from another place still matches.
    """

    role: str
    routes: Mapping[str, tuple[str, ...]]
    budget: Budget = field(default_factory=Budget)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def default(self) -> str:
        """Return the default model."""
        return next(iter(self.routes))
