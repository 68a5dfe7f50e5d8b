"""What the gatekeeper makes of claims that come over the bus: forged ones, floods, those of runs that are over."""

from __future__ import annotations

import io

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import claim_subject
from gatewright.contracts import codec
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.intake.claims import LOOK, ClaimListener
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.gatekeeper.projections.test_silent_runs import BEAT, RUN, TASK, given, make_claim, tell
from tests.gatekeeper.publishing import HandClock


class Listening:
    """A listener that was told of one task in hand, at 0 seconds."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus, self.clock, self.log, self.metrics = bus, HandClock(), io.BytesIO(), Metrics("gatekeeper")
        self.silent = SilentRuns(BEAT)
        self.listener = ClaimListener(bus, self.silent, self.clock, make_logger(self.log), self.metrics)
        self.listener.look(connected=True)
        tell(self.silent, 0.0, given())

    async def hear(self, data: bytes, *, role: str = "worker", token: str | None = None) -> None:
        held = task_token(self.bus, RUN, TASK) if token is None else token
        await self.listener.hear(Message(claim_subject(role), data, {TASK_TOKEN_HEADER: held} if held else {}))

    def outcomes(self) -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "gatewright_status_claims_total"
        }

    @property
    def last(self) -> float:
        return self.silent.tasks(RUN, 0.0)[TASK].last


@pytest.fixture
def listening(bus: MemoryBus) -> Listening:
    return Listening(bus)


async def test_a_claim_with_the_token_of_its_task_counts(listening: Listening) -> None:
    listening.clock.seconds = 7.0
    await listening.hear(codec.encode(make_claim()))
    assert (listening.last, listening.outcomes()) == (7.0, {"counted": 1})


@pytest.mark.parametrize(
    ("data", "role", "token"),
    [
        (codec.encode(make_claim()), "worker", ""),
        (codec.encode(make_claim()), "worker", "0" * 64),
        (codec.encode(make_claim()), "reviewer", None),
        (b"", "worker", None),
        (b"{}", "worker", None),
        (b"[" * 5000, "worker", None),
        (b"\xff", "worker", None),
        (codec.encode(make_claim()).replace(b"}", b',"text":"hello"}'), "worker", None),
        (codec.encode(make_claim()) + b" " * 10_000, "worker", None),
    ],
    ids=["no token", "another's token", "another role", "nothing", "no fields", "nested", "no text", "free text", "large"],
)
async def test_forged_claims_are_ignored_and_reported_once_per_check(
    listening: Listening, data: bytes, role: str, token: str | None
) -> None:
    listening.clock.seconds = 7.0
    for _ in range(500):
        await listening.hear(data, role=role, token=token)
    assert (listening.last, listening.outcomes()) == (0.0, {"refused": 500})
    assert listening.log.getvalue() == b""
    listening.listener.look(connected=True)
    assert listening.log.getvalue().count(b"claims_refused") == 1


async def test_claims_of_ended_or_unknown_runs_are_not_remembered(listening: Listening) -> None:
    tell(listening.silent, 1.0, ("run_finished", {"status": "ABORTED"}))
    for number in range(2_000):
        await listening.hear(codec.encode(make_claim(run_id=f"run-{number:010d}")))
        await listening.hear(codec.encode(make_claim()))
    assert (len(listening.silent), listening.outcomes()) == (0, {"unknown": 4_000})


async def test_a_gatekeeper_that_stood_still_or_was_cut_off_calls_nothing_silent(listening: Listening) -> None:
    silence = BEAT.silence + 1
    listening.clock.seconds = 10 * silence
    listening.listener.look(connected=True)
    assert listening.silent.silent_since(RUN, listening.clock.seconds) is None, "it stood still itself"
    listening.listener.look(connected=False)
    assert listening.silent.silent_since(RUN, listening.clock.seconds + silence) is None, "it hears nothing"
    listening.listener.look(connected=True)
    begun = listening.clock.seconds
    while listening.clock.seconds < begun + silence:
        listening.clock.seconds += LOOK
        listening.listener.look(connected=True)
    assert listening.silent.silent_since(RUN, listening.clock.seconds) == 0.0
    assert b"gatewright_runs_silent 1.0" in listening.metrics.exposition()
