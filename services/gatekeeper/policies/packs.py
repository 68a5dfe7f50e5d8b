"""Policy packs: requirements on a contract, by the risk that its order states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeVar

from msgspec.structs import replace
from pydantic import AfterValidator, Field

from gatewright.budgets import number
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Budget, CommandLimits, Judging, LandingMode, MutationBounds, Network, PolicyPack
from gatewright.patterns import is_pattern
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.rules.reports.proof import Testing
from gatewright.rules.reports.replays import Behaviour
from gatewright.rules.reports.untested import Untested
from gatewright.run.kinds import KINDS

Ordered = TypeVar("Ordered", bound=RunRequest | TaskContract)


class MutationRules(PolicyModel):
    """See ``MutationBounds``, which the test runner's task receives from it."""

    time_share: float = Field(ge=0, le=1)
    least_seconds: float = Field(ge=0, le=600)
    most_mutants: int = Field(ge=1, le=200)
    must_kill: float | None = Field(default=None, ge=0, le=1)

    def bounds(self) -> MutationBounds:
        return MutationBounds(
            time_share=self.time_share,
            least_seconds=self.least_seconds,
            most_mutants=self.most_mutants,
            must_kill=self.must_kill,
        )


class PackLimits(PolicyModel):
    """Highest values that an order may name, and the values of an order that names none: of the run, then of each command."""

    wall_sec: float | None = Field(default=None, gt=0, le=1e9)
    cpu_sec: float | None = Field(default=None, ge=1, le=1e6)
    memory_bytes: int | None = Field(default=None, ge=1 << 26)
    processes: int | None = Field(default=None, ge=8, le=1 << 20)

    def complete(self, document: Ordered) -> Ordered:
        """Return the order with these values where it names none."""
        budget, limits = document.budget or Budget(), document.limits or CommandLimits()
        if budget.wall_sec is None and self.wall_sec is not None:
            document = replace(document, budget=replace(budget, wall_sec=self.wall_sec))
        highest = self.model_dump(exclude={"wall_sec"}, exclude_none=True)
        has_commands = "limits" not in KINDS[document.task_type].unread
        missing = {name: most for name, most in highest.items() if has_commands and getattr(limits, name) is None}
        return replace(document, limits=replace(limits, **missing)) if missing else document

    def excesses(self, document: RunRequest | TaskContract) -> Iterator[str]:
        """Yield the values of the order above these as text."""
        for name, most in self.model_dump(exclude_none=True).items():
            group = "budget" if name == "wall_sec" else "limits"
            asked = getattr(getattr(document, group), name, None)
            if asked is not None and asked > most:
                yield f"{group}.{name} is {number(asked)}; at most {number(most)} is allowed"


def _check_pattern(text: str) -> str:
    if not is_pattern(text):
        raise ValueError("not a regular expression of RE2")
    return text


class PackRules(PolicyModel):
    """Requirements of one pack, beyond those on every contract.

    ``broad_paths``: a whole top-level directory is granted, or refused unless an approval rule asks a person.
    ``wider_permissions``: a contract that requests more than its role has gets less, or is refused. ``network``: the maximum
    for any role. ``testing``: the proof of acceptance commands is recorded, or at least one command must prove something.
    ``untested_change``: a changed file that no test loads is reported, or refused. ``passes_without_change``: the same for new
    and changed tests that pass on the baseline's sources. ``behaviour``: functions with another result outside of the test
    runner are recorded, or refused; ``required`` also refuses if no call could be compared. ``mutation``: number of mutants of
    a change to run against its tests; None: no mutants. ``judging``: the test runner starts together with the reviewer, or only
    after a passed review. ``limits``: of the run's time, and of each command. ``requirement``: pattern of an id, which the
    subject or a trailer of each commit must hold.
    """

    broad_paths: Literal["granted", "refused"]
    strict_acceptance: bool
    testing: Testing
    untested_change: Untested
    behaviour: Behaviour = "recorded"
    passes_without_change: Untested = "recorded"
    mutation: MutationRules | None = None
    judging: Judging = "together"
    wider_permissions: Literal["clamp", "refuse"]
    network: Network
    landing: tuple[LandingMode, ...] = Field(min_length=1)
    max_changed_files: int = Field(gt=0)
    max_retries: int = Field(ge=0, le=10)
    limits: PackLimits = PackLimits()
    requirement: Annotated[str, AfterValidator(_check_pattern)] | None = None


class PolicyPacks(PolicyModel):
    """``default`` is the pack of a contract that names none."""

    version: Literal["1"]
    default: PolicyPack
    low: PackRules
    medium: PackRules
    high: PackRules

    def pack(self, name: PolicyPack) -> PackRules:
        match name:
            case "low":
                return self.low
            case "medium":
                return self.medium
            case "high":
                return self.high


PACKS_FILE: Final = PolicyFile("policy_packs.json", PolicyPacks)
