"""``publishers.json``: who may submit work from outside, and how much of which kind.

Every field is required; ``null`` means no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.subjects import MAX_MESSAGE_BYTES
from gatewright.contracts.vocabulary import Priority
from gatewright.git.access.policy import RefPattern, RepositoryPattern
from gatewright.policy_files import PolicyFile, PolicyModel

# Quotas: maximum number of runs that are open or start within a period, per publisher or repository. Pure.
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


SubmissionKind = Literal["request", "contract"]
Reach = Literal["own", "any"]


class Rate(PolicyModel):
    """A token bucket of ``burst`` tokens that refills by ``per_minute``."""

    per_minute: float = Field(gt=0, le=1_000_000)
    burst: int = Field(ge=1, le=1_000_000)


class Publisher(PolicyModel):
    """Permissions and limits of one publisher.

    ``repositories`` are patterns (``repository_patterns``), ``landing_refs`` full names of refs or folders of them; a run with
    a branch of its own lands below ``refs/heads/gatewright/``. ``submissions`` limits what it submits, ``questions`` its
    queries. ``may_abort`` and ``may_see``: only its own runs, or also those of others.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    repositories: tuple[RepositoryPattern, ...]
    landing_refs: tuple[RefPattern, ...]
    kinds: tuple[SubmissionKind, ...]
    highest_priority: Priority
    max_document_bytes: int = Field(gt=0, le=MAX_MESSAGE_BYTES)
    submissions: Rate | None
    questions: Rate | None
    max_open_runs: int | None = Field(ge=1)
    max_runs_per_day: int | None = Field(ge=1)
    max_runs_per_hour: MostRuns = None
    may_abort: Reach
    may_see: Reach
    #: The people who share this identity, by names, accounts and mail addresses: any of them may have ordered each run.
    persons: tuple[Annotated[str, Field(min_length=1, max_length=320)], ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a limit requires counting its runs."""
        bounds = self.max_open_runs, self.max_runs_per_day, self.max_runs_per_hour
        return any(bound is not None for bound in bounds)


class Publishers(PolicyModel):
    """Publishers by name; an unlisted one may do nothing.

    The first of ``repository_quotas`` that covers a repository applies.
    """

    version: Literal["1"]
    publishers: tuple[Publisher, ...] = Field(min_length=1)
    repository_quotas: tuple[RepositoryQuota, ...] = ()

    def of(self, name: str) -> Publisher | None:
        return next((known for known in self.publishers if known.name == name), None)

    def with_named(self, names: Iterable[str]) -> Publishers:
        """Return these rules with additional publishers, which may do what ``default`` may, to their own runs only.

        Raises:
            ValueError: there is no ``default``, or a name is not a valid publisher name.
        """
        new = [name for name in dict.fromkeys(names) if self.of(name) is None]
        default = self.of(DEFAULT_PUBLISHER)
        if new and default is None:
            raise ValueError(
                f"publishers.json lists neither {', '.join(new)} nor {DEFAULT_PUBLISHER}, whose rule would hold for it"
            )
        own: dict[str, object] = {"may_abort": "own", "may_see": "own", "persons": ()}
        added = [{**default.model_dump(), "name": name, **own} for name in new if default]
        return self.model_copy(update={"publishers": (*self.publishers, *map(Publisher.model_validate, added))})

    @property
    def counted(self) -> frozenset[str]:
        """Publishers whose runs must be counted."""
        return frozenset(known.name for known in self.publishers if known.counted)

    @model_validator(mode="after")
    def _once(self) -> Publishers:
        """Refuse two entries of one name: either could be the intended one."""
        for name, count in Counter(known.name for known in self.publishers).items():
            if count > 1:
                raise ValueError(f"{name} is listed {count} times")
        return self


PUBLISHERS_FILE: Final = PolicyFile("publishers.json", Publishers)
