"""The process that plays rounds of retention: what it shows, what it does with a round that fails, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gatewright.app.cli.ledger_expiry import ExpiryProcess
from gatewright.app.retention.ledger_expiry import LedgerItem
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.policy_round import RoundOutcome
from gatewright.errors import ConfigurationError, GatewrightError, StoreError
from gatewright.telemetry.health import OFF
from gatewright.telemetry.logs import make_logger
from tests.retention.conftest import NOW, StoppedClock

RUN = LedgerItem("run-00000000000000000001", "expire", "old", 3)
GOOD = RoundOutcome(runs=(RUN,), expired_runs=(ItemOutcome(RUN, 2),))
HELD = RoundOutcome(runs=(RUN,), expired_runs=(ItemOutcome(RUN, 0, "bundle_changed", "on hold now"),))


@dataclass
class Rounds:
    """What each round comes to; after the last the process is told to leave."""

    outcomes: list[RoundOutcome | GatewrightError]
    process: ExpiryProcess = field(init=False)
    lacking: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = ExpiryProcess(self._play, 1e-9, make_logger(), StoppedClock())

    async def _play(self) -> RoundOutcome:
        self.lacking.append(self.process.pages()["/readyz"]("").body)
        outcome = self.outcomes.pop(0)
        if not self.outcomes:
            self.process.stop.set()
        if isinstance(outcome, GatewrightError):
            raise outcome
        return outcome

    def shown(self) -> dict[str, float]:
        lines = self.process.metrics.exposition().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] not in ("", "#")}


async def test_a_failed_round_is_reported_and_the_next_one_runs() -> None:
    rounds = Rounds([GOOD, StoreError("no answer", code="store_unreachable"), HELD, GOOD])
    await rounds.process.run("127.0.0.1", OFF)
    shown = rounds.shown()
    assert shown['gatewright_expired_total{what="run"}'] == 2
    assert shown['gatewright_expiry_left_total{what="run"}'] == 1
    assert shown['gatewright_expiry_left_total{what="round"}'] == 1
    assert shown['gatewright_expiry_last_round_seconds{rounds="bus"}'] == NOW.timestamp()
    assert b"none has ended" in rounds.lacking[0]
    assert rounds.lacking[1] == b"ok\n"
    assert b"store_unreachable" in rounds.lacking[2]
    assert b"1 items were left" in rounds.lacking[3]


async def test_a_round_that_leaves_something_is_not_shown_as_done() -> None:
    rounds = Rounds([HELD])
    await rounds.process.run("127.0.0.1", OFF)
    assert rounds.shown()['gatewright_expiry_last_round_seconds{rounds="bus"}'] == 0


async def test_an_error_ends_the_process_in_the_first_round_only() -> None:
    missing = ConfigurationError("gatekeeper.nk is not there", code="identity_missing")
    with pytest.raises(ConfigurationError):
        await Rounds([missing, GOOD]).process.run("127.0.0.1", OFF)
    later = Rounds([GOOD, ConfigurationError("the book", code="holds_unreadable"), GOOD])
    await later.process.run("127.0.0.1", OFF)
    assert later.shown()['gatewright_expiry_left_total{what="round"}'] == 1


async def test_metrics_and_readiness_are_served_over_http() -> None:
    rounds = Rounds([GOOD])
    asked: list[bytes] = []

    async def ask(path: str, port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    async def play() -> RoundOutcome:
        port = rounds.process.port
        asked.extend([await ask("/metrics", port), await ask("/readyz", port), await ask("/healthz", port)])
        rounds.process.stop.set()
        return GOOD

    rounds.process = ExpiryProcess(play, 1, make_logger(), StoppedClock())
    await rounds.process.run("127.0.0.1", 0)
    metrics, ready, alive = asked
    assert b'gatewright_expired_total{what="artifact"} 0.0' in metrics
    assert b"503" in ready.splitlines()[0]
    assert b"200" in alive.splitlines()[0]
