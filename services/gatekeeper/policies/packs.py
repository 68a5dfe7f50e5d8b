"""Policy packs: what a contract has to keep to, by the risk that its order names."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from gatewright.contracts.vocabulary import Judging, LandingMode, MutationBounds, Network, PolicyPack
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.rules.reports.proof import Testing, Untested


class MutationRules(PolicyModel):
    """See ``MutationBounds``, which the test runner's task gets of it."""

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


class PackRules(PolicyModel):
    """What one pack demands, beyond what every contract must keep to.

    ``broad_paths``: a whole top-level directory is granted, or refused unless an approval rule asks a person.
    ``wider_permissions``: a contract that asks for more than its role may have gets less, or is refused. ``network``: the most
    that any role gets. ``testing``: it is recorded what acceptance commands proved, or one of them at least must have proved
    something. ``untested_change``: a changed file that no test has loaded is said, or refused. ``mutation``: how many mutants
    of a change are tried against its tests; None: not one. ``judging``: the test runner is asked together with the reviewer, or
    only after a review that passed.
    """

    broad_paths: Literal["granted", "refused"]
    strict_acceptance: bool
    testing: Testing
    untested_change: Untested
    mutation: MutationRules | None = None
    judging: Judging = "together"
    wider_permissions: Literal["clamp", "refuse"]
    network: Network
    landing: tuple[LandingMode, ...] = Field(min_length=1)
    max_changed_files: int = Field(gt=0)
    max_retries: int = Field(ge=0, le=10)


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
