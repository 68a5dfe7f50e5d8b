"""What one task may call: the models by the names that its client uses, what stands in for each, and how much may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.contracts.vocabulary import Budget


@dataclass(frozen=True, slots=True)
class ModelGrant:
    """``routes``: by each name that may be asked for, the models that are tried for it, in order; the first is the default.

    ``paths`` are literal texts of this very run (a home, a folder) that stand in requests, each with the word that stands for
    it in the canonical form: a cassette that was recorded elsewhere matches all the same.
    """

    role: str
    routes: Mapping[str, tuple[str, ...]]
    budget: Budget = field(default_factory=Budget)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def default(self) -> str:
        """The model to ask for when nothing says which."""
        return next(iter(self.routes))
