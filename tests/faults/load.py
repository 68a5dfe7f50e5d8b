"""Runs to be disturbed, and what must be true of every one of them afterwards, whatever was killed.

What is looked at is read from the stored messages, the refs' own logs and the files, not from what a gatekeeper says.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gatewright.bus.topology import REQUEST_SUBJECT, run_subject
from gatewright.clock import new_id
from gatewright.contracts import RunRequest, codec
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository
from gatewright.errors import GatewrightError
from gatewright.evidence.verification.verify import verify
from gatewright.run.state import GENESIS, run_id_of
from gatewright.run.states import TERMINAL
from tests.e2e.conftest import FILES
from tests.ecosystems.environments import plain_environment
from tests.faults.fault_stack import House
from tests.git import repositories as git
from tests.waiting import PATIENCE

#: Succeeds when the first file was edited, after a pause.
THERE = b"""import pathlib, sys, time
time.sleep(float(sys.argv[1]))
sys.exit(0 if "edited" in pathlib.Path("src/a.py").read_text() else 1)
"""


@dataclass(frozen=True)
class Given:
    """A run that was accepted, and the ref that it is to land on."""

    run_id: str
    project: git.Repository
    ref: str
    commits_before: int


@dataclass
class Load:
    """Gives runs to a house, over a few repositories, so that some of them want the same paths."""

    house: House
    repositories: int = 8
    seconds: float = 0.2
    given: list[Given] = field(default_factory=list)
    projects: list[git.Repository] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        for number in range(self.repositories):
            path, home = self.house.root / f"project-{number}", self.house.root / f"owner-{number}"
            path.mkdir()
            home.mkdir()
            project = git.Repository(path, home)
            project.git("init", "--quiet", "--template=", "--initial-branch=main")
            project.configure(core__logAllRefUpdates="always")
            project.commit({**FILES, "tools/there.py": THERE}, "first")
            self.projects.append(project)

    async def give(self, *, durable: bool = False) -> Given:
        """One more run; every second one lands on a branch of its owner's, which then moves from where it was.

        ``durable``: left in the intake queue, where it is accepted once a gatekeeper reads it, rather than asked for.
        """
        number = next(self.numbers)
        project = self.projects[number % len(self.projects)]
        target = f"refs/heads/target-{number}" if number % 2 else None
        if target is not None:
            await asyncio.to_thread(project.git, "update-ref", "--create-reflog", target, "main")
        request = RunRequest(
            request="to be disturbed",
            repository=Repository(url=project.url, target_ref=target, landing="target" if target else "branch"),
            requested_by="tests",
            allowed_paths=("src/a.py",) if number % 3 else ("src",),
            acceptance_tests=(AcceptanceTest(name="there", cmd=f"python tools/there.py {self.seconds}", must_pass=True),),
            executor=Executor(kind="command", commands=(f"python tools/edit.py {self.seconds} {{paths}}",)),
            environment=Environment(prefix=str(plain_environment())),
        )
        if durable:
            run_id = await self._leave(replace(request, idempotency_key=new_id()))
        else:
            run_id = await self.house.client.submit_request(request, patience=PATIENCE)
        self.given.append(Given(run_id, project, target or f"refs/heads/gatewright/{run_id}", 1 if target else 0))
        return self.given[-1]

    async def _leave(self, request: RunRequest) -> str:
        key = request.idempotency_key or ""
        await self.house.bus.publish(REQUEST_SUBJECT, codec.encode(request), schema="run_request.v1", message_id=key)
        return run_id_of(key)

    async def settle(self, seconds: float = PATIENCE) -> None:
        """Wait until all runs are sealed, or for so long."""
        give_up = time.monotonic() + seconds
        for given in self.given:
            try:
                await self.house.client.wait(given.run_id, timeout=max(0.01, give_up - time.monotonic()))
            except GatewrightError:
                continue  # it is counted as lost


async def reached(house: House, given: Given, number: int) -> None:
    """Return the moment a run's transition of that number, or its seal, is in the ledger."""
    messages = house.bus.replay(run_subject(given.run_id), follow=True)
    async with contextlib.aclosing(messages):
        count = 0
        async for message in messages:
            count += 1
            if count >= number or b'"bundle_sealed"' in message.data:
                return


@dataclass
class Outcome:
    """What became of the runs. Every number but ``runs`` and ``sealed`` has to be 0."""

    runs: int = 0
    sealed: int = 0
    lost: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    landed_twice: list[str] = field(default_factory=list)
    not_landed: list[str] = field(default_factory=list)
    histories_not_of_one_line: list[str] = field(default_factory=list)
    sealed_twice: list[str] = field(default_factory=list)
    bundles_that_do_not_verify: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, list[str]]:
        return {name: value for name, value in vars(self).items() if isinstance(value, list) and value}

    def __str__(self) -> str:
        counts = {name: len(value) if isinstance(value, list) else value for name, value in vars(self).items()}
        return "\n".join(f"{name.replace('_', ' '):28} {count}" for name, count in counts.items())


async def judge(house: House, given: Sequence[Given]) -> Outcome:
    """Look at what is left of every run."""
    outcome = Outcome(runs=len(given))
    for one in given:
        events, sequence_is_whole = await _history(house, one.run_id)
        if not sequence_is_whole:
            outcome.histories_not_of_one_line.append(one.run_id)
        states = [event["payload"]["state"] for event in events if event["event_type"] == "state_entered"]
        seals = [event for event in events if event["event_type"] == "bundle_sealed"]
        if not seals:
            outcome.lost.append(f"{one.run_id} in {states[-1] if states else 'S0'}")
            continue
        outcome.sealed += 1
        if len(seals) > 1:
            outcome.sealed_twice.append(one.run_id)
        if [state for state in states if state in TERMINAL] != ["S6"]:
            finished = next(event for event in events if event["event_type"] == "run_finished")
            outcome.failed.append(f"{one.run_id}: {finished['payload']['code']}: {finished['payload']['message']}")
            continue
        _judge_landing(one, events, outcome)
        await asyncio.to_thread(_judge_bundle, house, one.run_id, seals[0]["payload"]["manifest_sha256"], outcome)
    return outcome


async def _history(house: House, run_id: str) -> tuple[list[dict[str, Any]], bool]:
    """All events of a run in the order in which they are stored, and whether they are one unbroken line."""
    transitions = [json.loads(message.data) async for message in house.bus.replay(run_subject(run_id))]
    events = [event for transition in transitions for event in transition["events"]]
    numbers = [transition["number"] for transition in transitions]
    hashes = [GENESIS, *(event["hash"] for event in events)]
    whole = (
        numbers == list(range(1, len(numbers) + 1))
        and [event["seq"] for event in events] == list(range(1, len(events) + 1))
        and [event["prev_hash"] for event in events] == hashes[:-1]
        and all(event["hash"] == _digest(event) for event in events)
    )
    return events, whole


def _digest(event: dict[str, Any]) -> str:
    plain = json.dumps({**event, "hash": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def _judge_landing(one: Given, events: Sequence[dict[str, Any]], outcome: Outcome) -> None:
    landed = [event["payload"] for event in events if event["event_type"] == "landed"]
    moves = one.project.git("reflog", "show", "--format=%H", one.ref, check=False).split()
    commits = one.project.git("rev-list", f"main..{one.ref}", check=False).split()
    if len(landed) > 1 or len(moves) > one.commits_before + 1 or len(commits) > 1:
        outcome.landed_twice.append(one.run_id)
    elif not landed or commits != [landed[0]["commit"].encode()]:
        outcome.not_landed.append(one.run_id)


def _judge_bundle(house: House, run_id: str, manifest_sha256: str, outcome: Outcome) -> None:
    """Whoever sealed it, in whichever home: the ledger speaks of one bundle, and whatever is signed is that one."""
    places = {home / "runs" / run_id for home in house.homes}
    manifests = [place / "manifest.json" for place in places if (place / "manifest.json").is_file()]
    if not manifests:
        outcome.bundles_that_do_not_verify.append(f"{run_id}: there is none")
    for manifest in manifests:
        same = hashlib.sha256(manifest.read_bytes()).hexdigest() == manifest_sha256
        found = verify(manifest.parent, [house.public_key])
        if not same or not found.ok:
            outcome.bundles_that_do_not_verify.append(f"{manifest.parent}: {'' if same else 'another manifest '}{found}")


def path_of(house: House, run_id: str) -> Path:
    """The bundle of a run in the first home."""
    return house.homes[0] / "runs" / run_id
