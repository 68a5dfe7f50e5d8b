"""``python -m tests.faults.flood --messages 10000``: floods a stack, and accounts for every message.

Sent = answered + dead-lettered + ignored (which the log says) + dropped as duplicate + refused by the server + noted in a log.
Honest runs go on in between. Prints the counts, the memory of every process and the honest runs; ends with 1 when anything is
unaccounted for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatewright import Client
from gatewright.app.stack.supervisor import Supervisor
from gatewright.bus import identities
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.bus.topology import TASK_ROLES
from gatewright.ledger.store import Ledger
from tests.e2e.stack import Stack, slow_request
from tests.faults.flood_account import Account, show
from tests.faults.flood_messages import Answer, Deck, Shot
from tests.faults.flood_stack import FloodedStack, flooded_stack
from tests.waiting import PATIENCE

#: Messages under way at a time; and seconds that a question may take, and that the queues may take to run empty.
AT_ONCE = 48
ANSWER_SECONDS = PATIENCE
EMPTY_SECONDS = PATIENCE
WARM_UP = 200
WORK_QUEUES = ("INTAKE", "TASKS", "RESULTS")
#: Messages that may wait in the queues before the flood is held back for a moment: honest ones wait behind them.
BACKLOG = 100
LOOK_EVERY = 25
NOTED = b"cancellation_malformed"
IGNORED = "answer_ignored"


class Flood:
    """One flood over one stack."""

    def __init__(self, stack: FloodedStack) -> None:
        self._stack, self._clients, self._operator = stack.supervisor, stack.clients, stack.operator
        self._project = stack.project
        self._refusals = stack.refusals
        self._stored: dict[tuple[str, int], Shot] = {}
        self._told: list[Shot] = []
        self.account = Account()

    async def run(self, messages: int, seed: int) -> Account:
        """1. An honest run, and a small flood of its answers and of everything else, so that every role has seen it all.

        2. The flood, with honest runs beside it. 3. The queues run empty. 4. Every message is looked for. 5. The bundles.
        """
        account = self.account
        first = await self._honest_run()  # 1
        deck = Deck(seed, await self._answers_of(first)).deal()
        await self._shoot(itertools.islice(deck, WARM_UP))
        await self._empty()
        members, before = self._stack.members, self._memory()
        begun = time.monotonic()  # 2
        done = asyncio.Event()
        honest = asyncio.create_task(self._honest_runs(done))
        await self._shoot(itertools.islice(deck, messages - WARM_UP))
        await self._empty()  # 3
        account.seconds = time.monotonic() - begun
        done.set()
        locations = [first, *await honest]
        await self._settle()  # 4
        after = self._memory()
        account.memory = {name: (before[name], after[name]) for name in before if name in after}
        account.changed = [f"{old} became {new}" for old, new in zip(members, self._stack.members, strict=True) if old != new]
        account.honest = len(locations)  # 5
        for run_id in locations:
            account.verified += await self._verify(run_id)
        return account

    async def _shoot(self, shots: Iterable[Shot]) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(shot: Shot) -> None:
            try:
                await self._send(shot)
            finally:
                room.release()

        async with asyncio.TaskGroup() as group:
            for number, shot in enumerate(shots):
                if number % LOOK_EVERY == 0:
                    await self._empty(down_to=BACKLOG)
                await room.acquire()
                group.create_task(one(shot))

    async def _send(self, shot: Shot) -> None:
        client, headers = self._clients[shot.identity], dict(shot.headers) or None
        match shot.way:
            case "ask":
                answer = await client.request(shot.subject, shot.data, timeout=ANSWER_SECONDS, headers=headers)
                schema = (answer.headers or {}).get("Gw-Schema")
                self.account.came_to(shot, "answered" if schema == "error.v1" else f"answered with {schema}")
            case "store":
                answer = await client.request(shot.subject, shot.data, timeout=ANSWER_SECONDS, headers=headers)
                ack = msgspec.json.decode(answer.data)
                if ack.get("duplicate"):
                    self.account.came_to(shot, "duplicate")
                elif "seq" in ack:
                    self._stored[ack["stream"], ack["seq"]] = shot
                else:
                    self.account.came_to(shot, f"not stored: {ack}")
            case "tell":
                await client.publish(shot.subject, shot.data, headers=headers)
                self._told.append(shot)
            case "wire":
                self.account.came_to(shot, await too_large(self._stack, shot))

    async def _empty(self, *, down_to: int = 0) -> None:
        """Wait until no more than this lies in the queues."""
        async with asyncio.timeout(EMPTY_SECONDS):
            while await self._waiting() > down_to:  # noqa: ASYNC110 - others empty them
                await asyncio.sleep(0.1)

    async def _waiting(self) -> int:
        counts = [await self._api(f"STREAM.INFO.{name}") for name in WORK_QUEUES]
        return sum(count["state"]["messages"] for count in counts)

    async def _api(self, call: str) -> dict[str, Any]:
        answer = await self._clients["operator"].request(f"$JS.API.{call}", b"", timeout=PATIENCE)
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        return found

    async def _settle(self) -> None:
        """Say of every message that was stored or told what became of it."""
        for client in self._clients.values():
            await client.flush()
        async with contextlib.aclosing(self._operator.replay("gw.dead.>")) as letters:
            dead = {(m.headers["Gw-Dead-Subject"], int(m.headers["Gw-Dead-Sequence"])) async for m in letters}
        ignored = self._ignored_ids()
        for (_, sequence), shot in self._stored.items():
            fate = "ignored" if shot.headers["Nats-Msg-Id"] in ignored else "lost"
            self.account.came_to(shot, "dead" if (shot.subject, sequence) in dead else fate)
        logs = {role: list((self._stack.options.home / "logs").glob(f"{role}*.log")) for role in TASK_ROLES}
        noted = min(log.read_bytes().count(NOTED) for files in logs.values() for log in files)
        for shot in self._told:
            if shot.fates == {"refused"}:
                taken = self._refusals[shot.subject] > 0
                self._refusals[shot.subject] -= 1
                self.account.came_to(shot, "refused" if taken else "not refused")
            else:
                noted -= 1
                self.account.came_to(shot, "noted" if noted >= 0 else "not noted")

    def _ignored_ids(self) -> set[str]:
        """The message ids of answers that the gatekeeper says it has ignored."""
        lines = (self._stack.options.home / "logs" / "gatekeeper.log").read_text().splitlines()
        return {msgspec.json.decode(line)["message_id"] for line in lines if IGNORED in line}

    async def _honest_run(self) -> str:
        async with Client.connect(self._stack.address) as client:
            run_id = await client.submit_request(slow_request(self._project, 0.0), patience=PATIENCE)
            run = await client.wait(run_id, timeout=EMPTY_SECONDS)
        if run.status != "SUCCESS":
            self.account.wrong.append(f"an honest run failed: {run.failure}")
        return run_id

    async def _honest_runs(self, done: asyncio.Event) -> list[str]:
        found = []
        while not done.is_set():
            found.append(await self._honest_run())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 0.2)
        return found

    async def _answers_of(self, run_id: str) -> list[Answer]:
        """What the roles said in a run, as they said it."""
        fields = {
            "contract_compiled": ("contract", "pm", "task_contract.v1"),
            "plan_accepted": ("plan", "techlead", "plan.v1"),
            "task_finished": ("result", "worker", "task_result.v1"),
            "review_received": ("report", "reviewer", "review_report.v1"),
            "tests_received": ("report", "testrunner", "test_report.v1"),
        }
        transitions = (await Ledger(self._operator).load(run_id)).transitions
        gatekeeper = identities.load(seed_file(bus_keys(self._stack.options.home), "gatekeeper"))
        events = [event for transition in transitions for event in transition.events]
        given = {e.payload["role"]: e.payload["task_id"] for e in events if e.event_type == "task_dispatched"}
        found = []
        for event in events:
            if event.event_type in fields:
                name, role, schema = fields[event.event_type]
                named = event.payload[name].get("task_id")
                task_id = named if named in given.values() else given[role]
                token = gatekeeper.private_id(f"task:{run_id}:{task_id}")
                found.append(Answer(role, schema, msgspec.json.encode(event.payload[name]), token))
        return found

    def _memory(self) -> dict[str, int]:
        """Resident bytes of every process."""
        found = {}
        for member in self._stack.members:
            fields = dict(line.split(":", 1) for line in Path(f"/proc/{member.pid}/status").read_text().splitlines())
            found[member.name] = int(fields["VmRSS"].split()[0]) * 1024
        return found

    async def _verify(self, run_id: str) -> bool:
        home = self._stack.options.home
        looked = await asyncio.to_thread(Stack(home).process, "verify", str(home / "runs" / run_id))
        if looked.returncode != 0:
            self.account.wrong.append(f"{run_id} does not verify: {looked.stdout}{looked.stderr}")
        return looked.returncode == 0


async def too_large(stack: Supervisor, shot: Shot) -> str:
    """Sent past every client library, which would not take it. The server does not read it either: it hangs up."""
    address = stack.address.url.rpartition("/")[2]
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        await reader.readline()
        writer.write(b"CONNECT {}\r\nPUB %s %d\r\n" % (shot.subject.encode(), len(shot.data)))
        with contextlib.suppress(OSError):
            writer.write(shot.data)
            await writer.drain()
        async with asyncio.timeout(ANSWER_SECONDS):
            said = await reader.read()
    except OSError:
        return "refused"
    finally:
        writer.transport.abort()
    return "refused" if b"-ERR" in said or not said else f"answered with {said[:80]!r}"


async def flood(root: Path, messages: int, seed: int) -> Account:
    """Flood a stack of its own below ``root``."""
    async with flooded_stack(root) as stack:
        return await Flood(stack).run(messages, seed)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-flood-") as folder:
        account = asyncio.run(flood(Path(folder), options.messages, options.seed))
    print(show(account))  # noqa: T201 - a command's output
    return 0 if account.good else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
