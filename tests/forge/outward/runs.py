"""Recorded runs that judge a change request, or land on a branch of their own, and the board that shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace as replace_fields

from gatewright.app.forge.desired import ForgeView, Wanted, wanted_of
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.forge_policy import ForgeEntry, JudgeRule, SecretReference
from gatewright.contracts.vocabulary import AcceptanceTest, LandingMode, SourceBranch
from gatewright.run import events as e
from gatewright.run.history import FollowedRun, follow_all
from gatewright.view.board import Board, advance_board
from gatewright.view.rows import BoardRow
from tests.evidence.recorded_runs import RecordedRun
from tests.view.ledgers import interleaved

HEAD = "a" * 40
BASE = "b" * 40
RULE = JudgeRule(allowed_paths=("src",), tests=(AcceptanceTest(name="unit", cmd="true", must_pass=True),))
ENTRY = ForgeEntry(
    name="shop",
    repository="/srv/project",
    kind="github",
    api="http://127.0.0.1:1",
    project="acme/shop",
    token=SecretReference(environment="FORGE_TOKEN"),
    target="main",
    requests=True,
    judge=RULE,
)
PUBLISHER = "forge"


@dataclass
class ForgeRun(RecordedRun):
    """``number``: the change request that it judges at ``head``; 0: none. ``words``: its order."""

    number: int = 0
    head: str = HEAD
    publisher: str = PUBLISHER
    words: str = "modernise the sources"
    repository: str = "/srv/project"

    def step(self, *events: e.LabelledEvent) -> None:
        super().step(*(self._accepted(each) for each in events))

    def _accepted(self, labelled: e.LabelledEvent) -> e.LabelledEvent:
        event = labelled.event
        if not isinstance(event, e.RunAccepted):
            return labelled
        own = {"publisher": self.publisher, "user_request": self.words, "repository_url": self.repository}
        return e.LabelledEvent(replace_fields(event, **own))

    @property
    def source(self) -> SourceBranch | None:
        if not self.number:
            return None
        ref = f"refs/pull/{self.number}/head"
        return SourceBranch(name=ref, head=self.head, base=BASE, commits=1, ref=ref)

    def request(self) -> RunRequest:
        return replace_fields(super().request(), source_branch=self.source)

    def contract(self, **changes: object) -> TaskContract:
        return super().contract(**{"source_branch": self.source, **changes})

    def begin(self) -> ForgeRun:
        self.accept()
        self.plan()
        return self

    def fail(self, code: str = "tests_failed", message: str = "a test failed") -> ForgeRun:
        self.begin()
        self.end("FAILED", code, message)
        return self

    def succeed(self, *, sealed: bool = True, mode: LandingMode = "branch", ref: str | None = None) -> ForgeRun:
        """Land on a branch of its own, or as given; ``sealed``: with a bundle."""
        self.begin()
        self.work()
        self.compose()
        self.pass_review()
        test = f"{self.run_id}.test.a1"
        self.step(self.tests(test), self.gate("tests", task_id=test))
        where = f"refs/heads/gatewright/{self.run_id}" if ref is None else ref
        landed = e.Landed(mode=mode, commit=self.git.commit, tree=self.git.tree, ref=where)
        self.step(
            self.gate("landing"),
            e.LabelledEvent(landed),
            e.LabelledEvent(e.StateEntered(state="S6")),
            e.LabelledEvent(e.RunFinished(status="SUCCESS", code="ok", message="landed")),
        )
        if sealed:
            self.seal()
        return self

    def seal(self) -> None:
        self.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="f" * 64, signer="key", location="/srv/runs")))

    @property
    def past(self) -> FollowedRun:
        past = follow_all(self.records)
        assert past is not None
        return past


def board_of(*runs: ForgeRun) -> Board:
    return advance_board(Board(), interleaved([run.transitions for run in runs]))


def view_of(*runs: ForgeRun, entry: ForgeEntry = ENTRY) -> ForgeView:
    return ForgeView(entry, tuple(board_of(*runs).rows.values()), PUBLISHER)


def row_of(view: ForgeView, run: ForgeRun) -> BoardRow:
    return next(row for row in view.rows if row.run_id == run.run_id)


def wanted(run: ForgeRun, others: Iterable[ForgeRun] = (), entry: ForgeEntry = ENTRY) -> Wanted:
    view = view_of(run, *others, entry=entry)
    return wanted_of(view, row_of(view, run), run.past)


def entry_with(
    *, merge: Literal["never", "gatekeeper", "forge"] = "never", landing: LandingMode = "none", **changes: object
) -> ForgeEntry:
    rule = replace_fields(RULE, landing=landing)
    return replace_fields(ENTRY, merge=merge, judge=rule, **changes)
