"""A head that moves between any two calls of the process: no other commit than a judged one is green or merged."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.evidence.recorded_runs import GitFacts
from tests.forge.outward.keepers import keeper_of
from tests.forge.outward.runs import ForgeRun, board_of, entry_with
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import Standin
from tests.forge.standin.state import ForgeState, commit_id

RACES = 100
#: Calls of one reconciliation, so that the head moves at each of them.
CALLS = 9


@dataclass
class MoveHead(Fault):
    """Lets every call succeed, and pushes to a request right before the ``at``-th one."""

    state: ForgeState | None = None
    number: int = 0
    at: int = 0

    def meets(self, method: str, path: str) -> bool:
        del method, path
        if self.state is not None and self.at == 0 and self.state.requests[self.number].state == "open":
            self.state.move_head(self.number, commit_id(f"forced {self.number}"))
        self.at -= 1
        return False


async def test_a_force_push_at_any_call_makes_no_unjudged_commit_green() -> None:
    dice, judged, entry = random.Random(35), set(), entry_with(merge="forge")  # noqa: S311 - no secret
    with Standin("github") as forge:
        state = forge.state
        for race in range(RACES):
            number = state.open_by("ana", f"topic-{race}", fork=dice.random() < 0.3).number
            head = state.requests[number].head
            judged.add(head)
            git = GitFacts(tree=state.tree_id(head))
            run = ForgeRun(key=f"race-{race}", number=number, head=head, git=git).succeed(mode="none", ref="")
            forge.fail(MoveHead(state=state, number=number, at=race % CALLS))
            async with keeper_of(entry, "github", forge.api, forge.token, [run]) as keeper:
                await keeper.round(board_of(run))
            forge.recover()
            async with keeper_of(entry, "github", forge.api, forge.token, [run]) as keeper:
                await keeper.round(board_of(run))
        green = {status.commit for status in state.statuses if status.state == "success"}
        merged = [request for request in state.requests.values() if request.state == "merged"]
        moved = [request for request in state.requests.values() if request.head not in judged]
        assert len(judged) == RACES
        assert green <= judged
        assert {request.head for request in merged} <= judged
        assert merged
        assert moved
        assert all(request.state == "open" for request in moved)
        assert all(len(state.notes_of(number)) <= 1 for number in state.requests)
