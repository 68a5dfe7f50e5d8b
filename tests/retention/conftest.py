"""A home folder with bundles of runs that ended at chosen times."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gatewright.app.retention.collection import Collector
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger import chain
from tests.evidence.recorded_runs import MAKERS, STAMP, RecordedRun

NOW = datetime(2026, 6, 1, tzinfo=UTC)
#: Keeps nothing that is older than a day.
STRICT = RetentionPolicy(keep_last=0, keep_days=1, keep_failed_days=1)


@dataclass
class StoppedClock:
    """A clock that stands still."""

    moment: datetime = NOW

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0


@dataclass
class House:
    """A home folder, its key, and runs to put into it."""

    home: Path
    key: keys.PrivateKey
    clock: StoppedClock = field(default_factory=StoppedClock)

    @property
    def root(self) -> Path:
        return self.home / "runs"

    @property
    def signer(self) -> Signer:
        return Signer(self.key)

    def seal(self, number: int, name: str = "success", *, days_old: float = 100) -> Path:
        """The bundle of run ``number``, made by ``name``, that ended ``days_old`` days ago."""
        run = self.recorded(number, name, days_old=days_old)
        sealing = BundleWriter(self.root).seal(run.run, run.transitions, run.store, self.signer)
        return Path(asyncio.run(sealing).location)

    def recorded(self, number: int, name: str = "success", *, days_old: float = 100) -> RecordedRun:
        """A run of the same events under another id and at another time."""
        made = MAKERS[name]()
        run_id, shift = f"run-{number:020}", (NOW - timedelta(days=days_old)).isoformat(timespec="milliseconds")
        stamp = shift.replace("+00:00", "Z")
        head, seq, transitions = chain.GENESIS, 0, []
        for transition in made.transitions:
            records = []
            for record in transition.events:
                seq += 1
                text = (
                    msgspec.json.encode(record)
                    .replace(made.run_id.encode(), run_id.encode())
                    .replace(STAMP.encode(), stamp.encode())
                )
                fresh = msgspec.json.decode(text, type=type(record))
                fresh = msgspec.structs.replace(fresh, ts=stamp, prev_hash=head, hash="", seq=seq)
                head = chain.digest(fresh)
                records.append(msgspec.structs.replace(fresh, hash=head))
            transitions.append(msgspec.structs.replace(transition, run_id=run_id, events=tuple(records)))
        return RecordedRun(run_id=run_id, store=made.store, transitions=transitions)

    def collector(self, policy: RetentionPolicy = STRICT) -> Collector:
        return Collector(self.home, [self.key.public], policy, self.clock, "operator")

    def actions(self, policy: RetentionPolicy = STRICT) -> dict[str, str]:
        return {item.run_id: item.action for item in self.collector(policy).plan()}

    def collect(self, policy: RetentionPolicy = STRICT) -> dict[str, str]:
        """Carry out the plan; run id -> code of what was not done, empty for what was."""
        collector = self.collector(policy)
        return {done.item.run_id: done.code for done in collector.carry_out(collector.plan(), self.signer)}


@pytest.fixture(scope="session")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> keys.PrivateKey:
    return keys.create(tmp_path_factory.mktemp("keys") / "gatekeeper.pem")


@pytest.fixture
def house(tmp_path: Path, private_key: keys.PrivateKey) -> House:
    home = tmp_path / "home"
    home.mkdir()
    return House(home, private_key)
