"""``budgets.json``: tokens and money of publishers and repositories per day or month. Without the file there is no limit."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from gatewright.contracts.vocabulary import MAX_INTEGER
from gatewright.git.access.policy import RepositoryPattern
from gatewright.git.access.repository_patterns import EVERYTHING, covers_address
from gatewright.policy_files import PolicyFile, PolicyModel

Tokens = Annotated[int | None, Field(ge=0, le=MAX_INTEGER, strict=True)]
Dollars = Annotated[float | None, Field(ge=0, le=1e9, allow_inf_nan=False, strict=True)]


class RunDefault(PolicyModel):
    """Budget of a run that sets none itself."""

    tokens: Tokens = None
    cost_usd: Dollars = None


class OrganisationBudget(PolicyModel):
    """One limit of all runs of ``publishers`` on ``repositories`` together, in each UTC day or month."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    publishers: tuple[str, ...] = Field(min_length=1)
    repositories: tuple[RepositoryPattern, ...] = Field(min_length=1)
    period: Literal["day", "month"]
    tokens: Tokens = None
    cost_usd: Dollars = None

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.tokens is None and self.cost_usd is None:
            raise ValueError("it sets no limit")
        return self

    def covers(self, publisher: str, url: str) -> bool:
        """Return whether the limit applies to a run. Reads the file system for a local address."""
        return self.names(publisher) and covers_address(url, self.repositories)

    def names(self, publisher: str) -> bool:
        """Return whether the limit is about runs of ``publisher``."""
        return publisher in self.publishers or EVERYTHING in self.publishers

    def starts(self, now: datetime) -> datetime:
        """Return when the period of ``now`` began."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return day if self.period == "day" else day.replace(day=1)

    def ends(self, now: datetime) -> datetime:
        """Return when the next period begins."""
        start = self.starts(now)
        return start + timedelta(days=1) if self.period == "day" else (start + timedelta(days=32)).replace(day=1)


class BudgetsPolicy(PolicyModel):
    """Every entry that covers a run applies."""

    version: Literal["1"]
    budgets: tuple[OrganisationBudget, ...] = Field(default=(), max_length=100)
    run_default: RunDefault = RunDefault()

    @model_validator(mode="after")
    def _once(self) -> Self:
        """Refuse two entries of one name: they would share one account."""
        for name, count in Counter(each.name for each in self.budgets).items():
            if count > 1:
                raise ValueError(f"{name} is listed {count} times")
        return self


BUDGETS_FILE: Final = PolicyFile("budgets.json", BudgetsPolicy, default=lambda: BudgetsPolicy(version="1"))
