"""A run whose policy tells how much a change risks, as the ledger has it, and forgeries of it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.contracts import RoutingRules
from gatewright.rules.routing import path_kinds, route
from gatewright.run import events as e
from tests.evidence.approved_runs import Forgery, as_it_is
from tests.evidence.recorded_runs import RecordedRun, under_policies

RULES = RoutingRules(version="1", low_paths=("docs/", "*.md"), high_paths=("src/",))


@dataclass
class RoutedRun(RecordedRun):
    """``forgery`` changes, or leaves out, what is written. ``rules`` None: the policy has none."""

    forgery: Forgery = as_it_is
    rules: RoutingRules | None = RULES

    def step(self, *events: e.LabelledEvent) -> None:
        written = []
        for event in events:
            payload = event.event
            if isinstance(payload, e.RunAccepted) and self.rules is not None:
                digests = payload.policies | {"routing_rules.json": "a" * 64}
                payload = under_policies(payload, digests, routing=self.rules)
            elif isinstance(payload, e.CandidateComposed) and self.rules is not None:
                payload = replace(payload, path_kinds=path_kinds(self.rules, self.git.names))
            forged = self.forgery(payload)
            if forged is not None:
                written.append(e.LabelledEvent(forged, event.level, event.task_id, event.attempt, event.role))
        if written:
            super().step(*written)

    def up_to_the_tests(self) -> None:
        self.accept()
        self.plan(shards=1)
        self.work()
        self.compose()
        self.pass_review()
        test = f"{self.run_id}.test.a1"
        self.step(self.tests(test), self.gate("tests", task_id=test))

    def finish(self) -> None:
        landed = e.Landed(mode="branch", commit=self.git.commit, tree=self.git.tree, ref=f"refs/heads/gatewright/{self.run_id}")
        over = e.LabelledEvent(e.RunFinished(status="SUCCESS", code="ok", message="landed"))
        self.step(self.gate("landing"), e.LabelledEvent(landed), e.LabelledEvent(e.StateEntered(state="S6")), over)


def make_routed(forgery: Forgery = as_it_is, rules: RoutingRules | None = RULES) -> RoutedRun:
    """One shard, tested, routed and landed."""
    run = RoutedRun(forgery=forgery, rules=rules)
    run.up_to_the_tests()
    if run.run.accepted.routing is not None:
        run.step(e.LabelledEvent(e.ReviewRouted(routing=route(run.run))))
    run.finish()
    return run
