"""Quotas: maximum number of runs that are open or start within a period, per publisher or repository. Pure."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from gatewright.git.access.policy import RepositoryPattern
from gatewright.policy_files import PolicyModel

MostRuns = Annotated[int | None, Field(ge=1)]


class RepositoryQuota(PolicyModel):
    """Limits of each repository that ``repositories`` cover, separately, for all publishers together; ``null`` is unlimited."""

    repositories: tuple[RepositoryPattern, ...] = Field(min_length=1)
    max_open_runs: MostRuns = None
    max_runs_per_hour: MostRuns = None
    max_runs_per_day: MostRuns = None

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        """Refuse an entry without limits, which would hide a later entry with limits."""
        if self.max_open_runs is None and self.max_runs_per_hour is None and self.max_runs_per_day is None:
            raise ValueError("it sets no limit")
        return self
