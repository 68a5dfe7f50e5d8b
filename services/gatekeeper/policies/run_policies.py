"""Optional policies of runs: risk rules for changes, memory of earlier runs, and questions to roles about open runs.

``routing_rules.json``, ``memory.json``, ``summons.json``: without a file, its function is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, model_validator

from gatewright.contracts import RoutingRules, codec
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.people.summons import MOST_SUMMONSES, SummonsRole
from gatewright.contracts.progress import MemoryBounds
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import ConfigurationError
from gatewright.git.paths import path_fault
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.rules.summons import FILE, SummonsBounds

ROUTING_FILE = PolicyFile("routing_rules.json", RoutingRules, decode=codec.decode)
#: Approval reasons that depend on routing.
_RESTS_ON_ROUTING = frozenset({"risk_tier", "critic"})


def check_routing(path: Path, rules: RoutingRules | None, asking: Iterable[ApprovalRule]) -> None:
    """Check the routing rules and the approval rules that depend on them.

    Args:
        path: file of the routing rules.
        rules: the routing rules, if there are any.
        asking: the approval rules.

    Raises:
        ConfigurationError: the rules have no limits or patterns, or an approval rule depends on missing routing rules.
    """
    if rules is None:
        for rule in asking:
            if rule.reason in _RESTS_ON_ROUTING:
                words = f"the rule {rule.name} asks by {rule.reason}, which needs {ROUTING_FILE} in the policy folder"
                raise ConfigurationError(words)
        return
    if rules.low_files > rules.high_files or rules.low_lines > rules.high_lines:
        raise ConfigurationError(f"{path}: what is still of low risk may not be more than what is not of high risk")
    for pattern in (*rules.low_paths, *rules.high_paths):
        name = pattern.removeprefix("*") if pattern.startswith("*") else pattern.removesuffix("/")
        if not pattern.startswith("*") and path_fault(name.encode()) is not None:
            raise ConfigurationError(f"{path}: {pattern!r} can be no path of a repository")


class MemoryPolicy(PolicyModel):
    """The newest ``entries`` runs, in at most ``max_bytes``; the oldest are dropped first."""

    version: Literal["1"]
    entries: int = Field(default=8, ge=1, le=32)
    max_bytes: int = Field(default=16384, ge=4096, le=65536)

    @property
    def bounds(self) -> MemoryBounds:
        return MemoryBounds(entries=self.entries, max_bytes=self.max_bytes)


MEMORY_FILE: Final = PolicyFile("memory.json", MemoryPolicy)


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
