"""Kinds of runs by the task type of the order: one table, from which everything that differs by kind derives.

A run of any kind goes through the states of its line. Only a change lands; the other kinds end with a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

from gatewright.contracts.reports import GateName
from gatewright.contracts.task_contract import TaskType
from gatewright.run.states import MAIN_LINE, SUCCESSORS, State

SuccessCode = Literal["ok", "planned", "reviewed", "tested", "researched"]
#: Fields of an order that only a change has, in requests and contracts.
_OF_CHANGES = frozenset(
    {"executor", "candidates", "scope", "audit_only", "interactive", "author", "reverts", "tests", "network"}
)
#: Fields that have an effect only where something is changed, planned or tested.
_OF_JUDGED_CHANGES = frozenset({"allowed_paths", "acceptance_tests", "sharding", "strict_acceptance"})
#: Fields that have an effect on commands only.
_OF_COMMANDS = frozenset({"environment", "needs", "language", "artifacts", "limits"})


@dataclass(frozen=True)
class RunKind:
    """One kind of run.

    ``line``: the states of a successful run, in order. ``gate``: the gate whose pass ends it. ``success`` and ``words``: code
    and text of a successful end. ``result``: name of its result document, empty for a change. ``unread``: fields of the order
    that nothing reads.
    """

    name: str
    line: tuple[State, ...]
    gate: GateName
    success: SuccessCode
    words: str = ""
    result: str = ""
    unread: frozenset[str] = frozenset()
    plans: bool = False
    lands: bool = False

    @property
    def reviews(self) -> bool:
        """Return whether a reviewer judges the candidate."""
        return "S3" in self.line

    @property
    def tests(self) -> bool:
        """Return whether a test runner judges the candidate."""
        return "S4" in self.line

    @property
    def works(self) -> bool:
        """Return whether workers do something: a change, or the findings of a search."""
        return "S2" in self.line

    @property
    def examines(self) -> bool:
        """Return whether the gatekeeper takes the candidate from commits that exist. That of a search is the baseline."""
        return not self.lands and (self.reviews or self.tests)

    @property
    def voted(self) -> bool:
        """Return whether people may be asked about its result: a change, or commits that were reviewed."""
        return self.lands or (self.examines and self.reviews)

    @property
    def searches(self) -> bool:
        """Return whether its workers search for findings, instead of making a change."""
        return self.works and not self.lands

    @property
    def work_gate(self) -> GateName:
        """Return the gate that judges the result of a worker."""
        return "diff" if self.lands else "citations"

    def asks(self, role: str) -> bool:
        """Return whether tasks are dispatched to the role; the pm compiles every request."""
        return {"techlead": self.plans, "worker": self.works, "reviewer": self.reviews, "testrunner": self.tests}.get(
            role, True
        )

    @cached_property
    def successors(self) -> Mapping[State, tuple[State, ...]]:
        """Successors of each state, as ``SUCCESSORS`` has them for a change.

        People may be asked before work without a plan, and about a review of commits.
        """
        if self.lands:
            return SUCCESSORS
        after: dict[State, tuple[State, ...]]
        after = {state: (following,) for state, following in zip(self.line, self.line[1:], strict=False)}
        if not self.plans:
            after["S1"] = (*after["S1"], "AWAITING_APPROVAL")
            after["AWAITING_APPROVAL"] = ("S1",)
        if self.voted:
            after["S3"] = (*after["S3"], "AWAITING_APPROVAL")
            after["AWAITING_APPROVAL"] = ("S1", "S3")
        return dict.fromkeys(SUCCESSORS, ()) | after


KINDS: Final[Mapping[TaskType, RunKind]] = MappingProxyType(
    {
        "IMPLEMENT": RunKind("change", MAIN_LINE, "landing", "ok", plans=True, lands=True),
        "PLAN": RunKind(
            "plan",
            ("S0", "S1", "S6"),
            "plan",
            "planned",
            "the plan was accepted; nothing was to be done",
            "plan",
            _OF_CHANGES | _OF_COMMANDS | {"source_branch"},
            plans=True,
        ),
        "REVIEW": RunKind(
            "review",
            ("S0", "S1", "S3", "S6"),
            "reviewer",
            "reviewed",
            "the review passed; nothing was to be landed",
            "review_report",
            (_OF_CHANGES | _OF_COMMANDS | _OF_JUDGED_CHANGES) - {"scope"},
        ),
        "TEST": RunKind(
            "test",
            ("S0", "S1", "S4", "S6"),
            "tests",
            "tested",
            "the tests passed; nothing was to be landed",
            "test_report",
            _OF_CHANGES | {"allowed_paths", "sharding", "source_branch"},
        ),
        "SEARCH": RunKind(
            "search",
            ("S0", "S1", "S2", "S3", "S6"),
            "reviewer",
            "researched",
            "the findings were reviewed; nothing was to be landed",
            "evidence_bundle",
            (_OF_CHANGES | _OF_COMMANDS | _OF_JUDGED_CHANGES | {"source_branch"}) - {"executor", "artifacts"},
        ),
    }
)
