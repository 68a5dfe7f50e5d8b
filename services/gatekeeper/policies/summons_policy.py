"""``summons.json``: which roles publishers may ask about open runs, how often, and at what cost. Without the file, none."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field, model_validator

from gatewright.contracts.people.summons import MOST_SUMMONSES, SummonsRole
from gatewright.contracts.vocabulary import Budget
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.rules.summons import FILE, SummonsBounds


class SummonsPolicy(PolicyModel):
    """``most``: maximum questions about one run. ``timeout_sec``, ``tokens`` and ``cost_usd``: limits of one answer."""

    version: str = Field(pattern="^1$")
    most: Annotated[int, Field(ge=1, le=MOST_SUMMONSES)] = MOST_SUMMONSES
    roles: tuple[SummonsRole, ...] = Field(default=get_args(SummonsRole), min_length=1)
    timeout_sec: float = Field(default=120.0, ge=1, le=600)
    tokens: int = Field(default=200_000, ge=1)
    cost_usd: float | None = Field(default=None, gt=0, le=1000)

    @model_validator(mode="after")
    def _once(self) -> SummonsPolicy:
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("a role is named twice")
        return self

    @property
    def bounds(self) -> SummonsBounds:
        budget = Budget(wall_sec=self.timeout_sec, tokens=self.tokens, cost_usd=self.cost_usd)
        return SummonsBounds(self.most, self.roles, self.timeout_sec, budget)


SUMMONS_FILE = PolicyFile(FILE, SummonsPolicy)
