"""A merge queue in a storm: ``python -m tests.faults.queue_storm --changes 60``.

Three gatekeepers serve one branch. All changes are queued while the queue is held. From its release on, one gatekeeper is
killed every two seconds, and others push to the branch. The same is played for a queue that tests one change at a time. At the
end each good change must have landed once, each bad one must have left, and every value of the branch must be green.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gatewright.bus.identities import bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import queue_subject
from gatewright.contracts import QueueRules, QueueTransition, RunRequest, codec
from gatewright.contracts.queue_policy import QueuePolicy, QueueRule, Window
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.verification.verify import verify
from tests.ecosystems.environments import plain_environment
from tests.faults.fault_stack import ROOT, House, open_house
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

MAIN = "refs/heads/main"
#: Gatekeepers, and test runners: as many tests at a time.
GATEKEEPERS, TEST_RUNNERS = 3, 8
#: Seconds between two ends of a gatekeeper.
KILL = 2.0
#: Runs that are under way at a time before they are queued.
UNDER_WAY = 6
#: Positions under way at a time, and runs of one.
POLICIES = {
    "wide": QueuePolicy(batch_size=8, window=Window(start=8, most=8)),
    "serial": QueuePolicy(batch_size=1, window=Window(start=1, least=1, most=1)),
}
#: A test for each change. Only the branch has the file ``fence``, not the baseline of the runs: behind it bad changes fail, and
#: the tests take as many seconds as it says.
CHECK = b"""import pathlib, time, unittest

FENCE = pathlib.Path("fence")


class Changes(unittest.TestCase):
    def test_fence(self):
        if FENCE.exists():
            time.sleep(float(FENCE.read_text()))


def check(path):
    return lambda self: self.assertFalse(FENCE.exists() and path.read_text().startswith("bad"), path)


for path in sorted(pathlib.Path("changes").glob("*.txt")):
    setattr(Changes, "test_" + path.stem, check(path))
"""
WRITE = b"""import pathlib, sys
path = pathlib.Path(sys.argv[1])
path.parent.mkdir(exist_ok=True)
path.write_text(sys.argv[2] + "\\n")
"""


@dataclass(frozen=True)
class Change:
    """A run's file and its content. Of two changes of one file only one can land."""

    number: int
    path: str
    content: str

    @classmethod
    def make(cls, number: int) -> Change:
        """One of ten is broken together with what is on the branch, and two of ten are about one file."""
        place = number - 1 if number % 10 == 7 else number
        return cls(number, f"changes/{place:03}.txt", f"bad {number}" if number % 10 == 4 else f"good {number}")


@dataclass
class Faults:
    """What must not happen. Each list has to be empty."""

    wrong_endings: list[str] = field(default_factory=list)
    red_values: list[str] = field(default_factory=list)
    unknown_commits: list[str] = field(default_factory=list)
    bundles_that_do_not_verify: list[str] = field(default_factory=list)
    refused_by_the_script: list[str] = field(default_factory=list)

    def found(self) -> dict[str, list[str]]:
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True)
class Played:
    """The outcome. ``seconds``: from its release to each landing, sorted. ``bytes_of_run``: of its stream, on average.

    ``faults``: by name; empty if all is well.
    """

    landed: int
    left: int
    kills: int
    pushes: int
    tests: int
    bytes_of_run: int
    seconds: tuple[float, ...]
    faults: Mapping[str, list[str]]

    @property
    def p95(self) -> float:
        return self.seconds[len(self.seconds) * 95 // 100]


@dataclass
class Storm:
    """A queue of ``house`` with the name of its policy, and a bare repository with it."""

    house: House
    name: str
    chance: random.Random
    test_seconds: float
    runs: dict[Change, str] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    kills: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        folder = self.house.root / self.name
        folder.mkdir()
        self.source = Repository(folder / "source", folder)
        self.source.path.mkdir()
        self.source.git("init", "--quiet", "--template=", "--initial-branch=main")
        self.source.commit({"tests/test_changes.py": CHECK, "tools/write.py": WRITE}, "first")
        self.target = Repository(folder / "target.git", folder)
        self.source.git("clone", "--quiet", "--bare", "--template=", self.source.url, str(self.target.path))
        self.target.configure(core__logAllRefUpdates="always")
        self.first = self.target.head(MAIN)

    async def play(self, changes: int, pushes: int, between: float) -> Played:
        """Queue all changes behind a hold, release them, and wait for the end."""
        await self._run(Change(0, "changes/opener.txt", "good"))
        await self._wait(list(self.runs.values()))
        await self.house.client.merge_act("hold", repository=self.target.url, branch="main", reason="the storm gathers")
        places = asyncio.Semaphore(UNDER_WAY)

        async def give(number: int) -> None:
            async with places:
                await self._queued(await self._run(Change.make(number)))

        async with asyncio.TaskGroup() as group:
            for number in range(1, changes + 1):
                group.create_task(give(number))
        await asyncio.to_thread(self._push, "fence", str(self.test_seconds))
        await self.house.client.merge_act("resume", repository=self.target.url, branch="main")
        beside = [asyncio.create_task(self._kill()), asyncio.create_task(self._push_all(pushes, between))]
        try:
            await self._wait(list(self.runs.values()))
            await beside[1]
        finally:
            self.done.set()
            await asyncio.gather(*beside)
        return await self._judge()

    async def _run(self, change: Change) -> str:
        request = RunRequest(
            request=f"change {change.number}",
            repository=RepositoryField(url=self.target.url, target_ref=MAIN, landing="queue"),
            requested_by="tests",
            allowed_paths=(change.path,),
            acceptance_tests=(AcceptanceTest(name="check", cmd="python -m unittest discover tests", must_pass=True),),
            executor=Executor(kind="command", commands=(f"python tools/write.py {change.path} '{change.content}'",)),
            environment=Environment(prefix=str(plain_environment())),
        )
        self.runs[change] = await self.house.client.submit_request(request, patience=PATIENCE)
        return self.runs[change]

    async def _queued(self, run_id: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await self.house.client.get(run_id)).state not in {"QUEUED", "FAILED"}:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)

    async def _wait(self, runs: Sequence[str]) -> None:
        for run_id in runs:
            await self.house.client.wait(run_id, timeout=2 * PATIENCE)

    async def _kill(self) -> None:
        while not self.done.is_set():
            pids = self.house.pids("gatekeeper")
            with contextlib.suppress(ProcessLookupError):
                if len(pids) == GATEKEEPERS:
                    os.kill(self.chance.choice(pids), signal.SIGKILL)
                    self.kills += 1
            await self._pause(KILL)

    async def _push_all(self, pushes: int, between: float) -> None:
        for number in range(pushes):
            await asyncio.to_thread(self._push, f"outside-{number:02}.txt", "outside")
            await self._pause(between)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.done.wait()

    def _push(self, name: str, content: str) -> None:
        """Push a file to the branch from outside the queue, as often as it takes."""
        git = self.source.git
        while True:
            git("fetch", "--quiet", self.target.url, MAIN)
            git("checkout", "--quiet", "--detach", "--force", "FETCH_HEAD")
            commit = self.source.commit({name: content.encode()}, "outside")
            git("push", "--quiet", self.target.url, f"HEAD:{MAIN}", check=False)
            if commit in self._values():
                self.outside.append(commit)
                return

    def _values(self) -> list[str]:
        """Every value that the branch took after the first one, in order, by git's own log."""
        return self.target.git("reflog", "show", "--format=%H", MAIN).decode().split()[::-1]

    async def _judge(self) -> Played:
        faults = Faults()
        codes = await self._judge_endings(faults)
        landed = [run_id for change, run_id in self.runs.items() if codes[change] == "landed"]
        await asyncio.to_thread(self._judge_branch, len(landed), faults)
        await asyncio.to_thread(self._judge_bundles, landed, faults)
        tests, stored, seconds = await self._measure()
        left, pushes = len(codes) - len(landed), len(self.outside)
        return Played(len(landed), left, self.kills, pushes, tests, stored // len(codes), seconds, faults.found())

    async def _judge_endings(self, faults: Faults) -> dict[Change, str]:
        codes = {}
        for change, run_id in self.runs.items():
            result = await self.house.client.get(run_id)
            codes[change] = "landed" if result.status == "SUCCESS" else result.failure.code if result.failure else result.status
        for change, code in codes.items():
            rivals = [codes[other] for other in self.runs if other.path == change.path and other is not change]
            expected = {"merge_tests_failed"} if change.content.startswith("bad") else {"landed"}
            if rivals:
                expected = {"merge_conflict"} if rivals == ["landed"] else {"landed"}
            if code not in expected:
                faults.wrong_endings.append(f"change {change.number} ({self.runs[change]}): {code}")
        return codes

    def _judge_branch(self, landed: int, faults: Faults) -> None:
        """Every commit is a run's or was pushed from outside, and no value of the branch has a bad file behind the fence."""
        history = self.target.git("rev-list", "--first-parent", f"{self.first}..{MAIN}").decode().split()
        of_runs = [commit for commit in history if commit not in self.outside]
        if len(of_runs) != landed or len(history) != len(of_runs) + len(self.outside):
            faults.unknown_commits.append(f"{len(history)} commits, {landed} runs landed, {len(self.outside)} pushes")
        for value in self._values():
            grep = self.target.git("grep", "-l", "^bad", value, "--", "changes", check=False)
            if grep:
                faults.red_values.append(f"{value}: {grep.decode().strip()}")

    def _judge_bundles(self, landed: Sequence[str], faults: Faults) -> None:
        folder = self.house.homes[0] / "runs"
        for run_id in landed:
            found = verify(folder / run_id, [self.house.public_key])
            if not found.ok:
                faults.bundles_that_do_not_verify.append(f"{run_id}: {found}")
        script = ROOT / "docs" / "scripts" / "walk_landings.sh"
        walked = subprocess.run(
            ["sh", str(script), self.target.url, "main", str(folder)], capture_output=True, text=True, check=False
        )
        ok = sum(line.startswith("ok") for line in walked.stdout.splitlines())
        if walked.returncode or ok != len(landed):
            faults.refused_by_the_script.append((walked.stdout + walked.stderr)[-2000:])

    async def _measure(self) -> tuple[int, int, tuple[float, ...]]:
        """Tests that were begun after the release, bytes of the stream, and the seconds from the release to each landing."""
        released: datetime | None = None
        tests, stored, seconds = 0, 0, []
        queue_id = (await self.house.client.merge_queues(repository=self.target.url, branch="main"))[0].queue_id
        seed = seed_file(bus_keys(self.house.homes[0]), "gatekeeper")  # others may not read the stream
        bus = await JetStreamBus.connect(replace(self.house.supervisor.address, seed=seed), name="storm")
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(bus.close)
            async for message in bus.replay(queue_subject(queue_id)):
                step = codec.decode(message.data, QueueTransition)
                stored += len(message.data)
                when = datetime.fromisoformat(step.ts)
                for record in step.events:
                    if record.event_type == "queue_resumed":
                        released = when
                    elif released is not None and record.event_type == "test_requested":
                        tests += 1
                    elif released is not None and record.event_type == "position_landed":
                        seconds += [(when - released).total_seconds()] * len(record.payload["runs"])
        return tests, stored, tuple(sorted(seconds))


async def storm(
    root: Path,
    changes: int,
    *,
    pushes: int,
    between: float,
    test_seconds: float,
    queues: Sequence[str] = tuple(POLICIES),
    seed: int = 1,
) -> dict[str, Played]:
    """Play queues, by the names of their policies, in one house, one after the other."""
    policies = root / "policies"
    shutil.copytree(ROOT / "policies", policies)
    rules = tuple(
        QueueRule(repositories=(f"{root / name}/",), branches=(MAIN,), policy=policy) for name, policy in POLICIES.items()
    )
    (policies / "queues.json").write_bytes(codec.encode(QueueRules(version="1", queues=rules)))
    played = {}
    async with open_house(root, gatekeepers=GATEKEEPERS, testrunners=TEST_RUNNERS, policies=policies) as house:
        for name in queues:
            chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
            played[name] = await Storm(house, name, chance, test_seconds).play(changes, pushes, between)
    return played


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--pushes", type=int, default=20)
    parser.add_argument("--between", type=float, default=5.0, help="seconds between two pushes from outside")
    parser.add_argument("--test-seconds", type=float, default=2.0, help="how long a test of the queue takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--root", type=Path, help="where to keep everything (default: a folder that is removed)")
    words = parser.parse_args()
    given = {name: getattr(words, name) for name in ("pushes", "between", "test_seconds", "seed")}
    with tempfile.TemporaryDirectory(prefix="storm-") as temporary:
        played = asyncio.run(storm(words.root or Path(temporary), words.changes, **given))
    for name, each in played.items():
        print(name, {**vars(each), "p95": each.p95})  # noqa: T201
    print(f"p95 wide/serial {played['wide'].p95 / played['serial'].p95:.2f}")  # noqa: T201
    return 1 if any(each.faults for each in played.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
