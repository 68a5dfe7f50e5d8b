"""An honest run of two candidates in ledger form, of which the second, the smaller one, lands."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from gatewright.contracts import RunRequest
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Executor
from gatewright.git.patches.lines import changed_lines
from gatewright.rules import task_contracts
from gatewright.run import events as e
from gatewright.run.choice import best, standings
from gatewright.run.state import Run, TaskRole
from tests.evidence.recorded_runs import GitFacts, RecordedRun

NAME = b"src/a.py"
#: What each candidate adds, in lines.
LINES = {1: 9, 2: 4}
REMARK = Finding(code="remark", message="look here", blocking=False)


@dataclass
class CandidateRuns(RecordedRun):
    """A ledger of one run with two candidates."""

    git: GitFacts = field(default_factory=lambda: GitFacts(names=(NAME,)))

    def request(self) -> RunRequest:
        makers = (Executor(kind="reply", artifacts=("reply.a1",)), Executor(kind="reply", artifacts=("reply.a2",)))
        return replace(super().request(), executor=None, candidates=makers, sharding=None)

    def patch(self, number: int) -> bytes:
        header = b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n" % ((NAME,) * 4)
        return header + b"@@ -0,0 +1,%d @@\n" % LINES[number] + b"+line\n" * LINES[number]

    def judge(self, number: int, role: str) -> str:
        return f"{self.run_id}.{role}.c{number}.a1"

    def compose_all(self) -> None:
        names = self.store.put(NAME + b"\0")
        events = []
        for number in LINES:
            patch = self.artifact("candidate.patch", self.patch(number))
            composed = e.CandidateComposed(
                tree=self.git.tree,
                patch=patch.uri,
                names=names,
                changed_files=1,
                changed_lines=changed_lines(self.patch(number)),
                candidate=number,
            )
            worker = f"{self.run_id}.plan.w01.c{number}"
            events += [self.gate("integrated", task_id=worker, evidence=patch.uri), e.LabelledEvent(composed)]
        events.append(e.LabelledEvent(e.StateEntered(state="S3")))
        self.step(*events, *self.orders("reviewer", self.after(*events)))

    def orders(self, role: TaskRole, run: Run) -> list[e.LabelledEvent]:
        """The task of a judge for each candidate."""
        made = task_contracts.reviewing if role == "reviewer" else task_contracts.testing
        events = []
        for number in LINES:
            seen = run.seen_from(number)
            assert seen.candidate is not None
            order = made(seen, self.contract(), seen.candidate.patch)
            events.append(self.dispatch(order.task_id, role, order))
        return events

    def review_all(self, findings: dict[int, int]) -> None:
        for number in LINES:
            review = self.review(self.judge(number, "review"))
            assert isinstance(review.event, e.ReviewReceived)
            report = replace(review.event.report, findings=(REMARK,) * findings.get(number, 0))
            told = [e.LabelledEvent(e.ReviewReceived(report=report)), self.gate("reviewer", task_id=report.task_id)]
            if number == max(LINES):
                told.append(e.LabelledEvent(e.StateEntered(state="S4")))
                told += self.orders("testrunner", self.after(*told))
            self.step(*told)

    def test_all_and_choose(self) -> None:
        for number in LINES:
            task = self.judge(number, "test")
            told = [self.tests(task), self.gate("tests", task_id=task)]
            if number == max(LINES):
                ranked = standings(self.after(*told))
                chosen = best(ranked)
                assert chosen is not None
                told.append(e.LabelledEvent(e.CandidateChosen(candidate=chosen, standings=ranked)))
            self.step(*told)

    def land_chosen(self) -> None:
        landed = e.Landed(mode="branch", commit=self.git.commit, tree=self.git.tree, ref=f"refs/heads/gatewright/{self.run_id}")
        end = e.RunFinished(status="SUCCESS", code="ok", message="landed")
        self.step(
            self.gate("landing"), e.LabelledEvent(landed), e.LabelledEvent(e.StateEntered(state="S6")), e.LabelledEvent(end)
        )


def make_candidates(findings: dict[int, int] | None = None, run: CandidateRuns | None = None) -> RecordedRun:
    """Two candidates with so many findings; without any the smaller one lands. ``run``: nothing has happened to it yet."""
    run = run or CandidateRuns()
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose_all()
    run.review_all(findings or {})
    run.test_all_and_choose()
    run.land_chosen()
    return run
