"""A console over the ledger of a real gatekeeper, with a run that waits for Ana or for one of the group release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gatewright.bus.memory.bus import MemoryBus
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import ApprovalRequest
from gatewright.contracts.people.approvals import DecisionVerdict, SignedDecision
from gatewright.rules.approvals import decision_on
from gatewright.run.events import ApprovalDecided, event_of
from tests.attacks.people import LANDING, Files, Inbox, open_inbox, signed
from tests.console.conftest import ServedConsole
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import Repository

PHRASE = "land it now"


class DecidingConsole:
    """``request`` is what waits; ``inbox`` the gatekeeper, which is called where the console runs."""

    def __init__(self, console: ServedConsole, inbox: Inbox) -> None:
        self.console, self.inbox = console, inbox
        self.request: ApprovalRequest = console.do(inbox.asked())

    def signed(
        self, verdict: DecisionVerdict = "approve", person: str = "ana", key: str = "ana", **words: str
    ) -> SignedDecision:
        """An answer of a person's own making."""
        said = {"verdict": verdict, "person": person, "decided_at": timestamp(self.inbox.clock.now()), **words}
        return signed(decision_on(self.request, **said), key)

    def decided(self) -> list[str]:
        """The verdicts of all decisions that the ledger has."""

        async def found() -> list[str]:
            position = await self.inbox.gatekeeper.orchestrator.ledger.get(self.request.run_id)
            payloads = [event_of(record) for step in position.transitions for record in step.events]
            return [each.verdict for each in payloads if isinstance(each, ApprovalDecided)]

        return self.console.do(found())

    def status(self) -> str:
        """How the run stands."""
        return self.console.do(self.inbox.run()).status


@contextlib.contextmanager
def open_deciding(
    console: ServedConsole, repository: Repository, folder: Path, files: Files | None = None, **rule: object
) -> Iterator[DecidingConsole]:
    """``console`` is made for this and opened here; its run waits before it lands. ``files``: what it changes below ``src``."""
    console.begin()
    # A passkey's decision has the console's own time, which is the real one: the gatekeeper's must agree.
    clock = HandClock(SystemClock().now().timestamp() - HandClock().now().timestamp())
    opened = open_inbox(repository, folder, {**LANDING, **rule}, clock=clock)
    inbox = console.do(opened.__aenter__())
    console.system = inbox.gatekeeper.bus.server
    serving = MemoryBus(console.system)
    console.do(serving.serve("gw-gatekeeper", inbox.service.endpoints()))
    console.do(inbox.submit(**({"allowed_paths": ("src",)} if files else {})))
    console.do(inbox.work(files))
    console.start()
    try:
        yield DecidingConsole(console, inbox)
    finally:
        console.do(serving.close())
        console.do(opened.__aexit__(None, None, None))
        console.close()
