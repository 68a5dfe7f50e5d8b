"""A stack whose state lies on a small volume of its own, which is filled up under its work and emptied again. A program.

It is run with a real tmpfs as the volume (``tests/volumes.py``), and prints what it saw as one JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack import state
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.topology import REQUEST_SUBJECT
from gatewright.contracts import codec
from gatewright.errors import BusError, GatewrightError
from gatewright.run.state import Run, run_id_of
from tests.e2e.stack import PREFIX, slow_request
from tests.volumes import on_volume
from tests.waiting import PATIENCE

MIB = 1 << 20


@dataclass
class Seen:
    """What became of the runs, and what the stack said of itself while the volume was full and afterwards."""

    accepted: int = 0
    #: status or failure code -> how many
    ends: dict[str, int] = field(default_factory=dict)
    full_health: list[str] = field(default_factory=list)
    full_fault: str = ""
    after_health: str = ""
    after_fault: str = ""
    server_restarts: int = 0
    refused_while_full: str = ""
    listed_while_full: str = ""
    seconds_to_the_last_end: float = 0.0


def seen_on_volume(mount: Path, size: int, project: Path, runs: int) -> Seen:
    """Run this program with ``mount`` a volume of ``size`` bytes."""
    done = on_volume(mount, size, sys.executable, "-m", "tests.faults.small_volume", mount, project, str(runs))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return Seen(**json.loads(done.stdout.splitlines()[-1]))


class Volume:
    """The small one. ``fill`` leaves nothing; ``keep_full`` takes what others let go."""

    def __init__(self, mount: Path) -> None:
        self._ballast = mount / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for piece in (MIB, 4096):
                while True:
                    try:
                        file.write(b"\0" * piece)
                    except OSError as error:
                        assert error.errno == errno.ENOSPC  # noqa: PT017 - what the volume is for
                        break

    async def keep_full(self) -> None:
        while True:
            self.fill()
            await asyncio.sleep(0.02)

    def make_room(self) -> None:
        self._ballast.unlink()


async def fill_under_work(mount: Path, project: Path, runs: int) -> Seen:
    """Give runs, fill the volume, look, make room, and wait for every run that was accepted."""
    home, seen, volume = mount / "home", Seen(), Volume(mount)
    make_home(home)
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"], "GATEWRIGHT_ENVIRONMENTS": str(PREFIX)}
    supervisor = Supervisor(StackOptions(home=home, base_environment=base, workers=2, shared=True, environments=(PREFIX,)))
    await supervisor.start()
    try:
        await supervisor.ready(60)
        first_server = server_pid(supervisor)
        async with Client.connect(supervisor.address, patience=30) as client:
            request = slow_request(project, 0.3)
            accepted = [await client.submit_request(request, patience=PATIENCE) for _ in range(runs)]
            seen.accepted = len(accepted)
            await until(lambda: any_state(client, accepted, "S2"))
            filling = asyncio.create_task(volume.keep_full())
            try:
                accepted += await leave_requests_until_one_is_not_taken(client, project)
                seen.accepted = len(accepted)
                await until(lambda: wait_fault(home, seen))
                await until(lambda: unhealthy(home, seen))
                seen.listed_while_full = await runs_of(home)
                try:
                    await client.submit_request(request)
                except GatewrightError as error:
                    seen.refused_while_full = error.reason
            finally:
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)
            begun = time.monotonic()
            volume.make_room()
            for run_id in accepted:
                run = await client.wait(run_id, timeout=PATIENCE)
                end = "SUCCESS" if run.failure is None else f"{run.failure.code}: {run.failure.message}"
                seen.ends[end] = seen.ends.get(end, 0) + 1
            seen.seconds_to_the_last_end = time.monotonic() - begun
            await until(lambda: healthy(home, seen))
        seen.after_fault = fault(home)
        seen.server_restarts = int(server_pid(supervisor) != first_server)
    finally:
        await supervisor.stop()
    return seen


async def leave_requests_until_one_is_not_taken(client: Client, project: Path) -> list[str]:
    """Requests for the durable queue until the server has no room for one; the runs of those that it took."""
    taken: list[str] = []
    large = msgspec.structs.replace(slow_request(project, 0.1), request="a long story. " * 1000)
    while True:
        key = uuid.uuid4().hex
        document = codec.encode(msgspec.structs.replace(large, idempotency_key=key))
        try:
            await client.bus.publish(REQUEST_SUBJECT, document, schema="run_request.v1", message_id=key)
        except BusError:
            return taken
        taken.append(run_id_of(key))


def server_pid(supervisor: Supervisor) -> int:
    return next(member.pid for member in supervisor.members if member.name == "nats-server")


def fault(home: Path) -> str:
    found = state.read(home)
    return found.fault if found is not None else ""


def health_of(home: Path, role: str = "gatekeeper") -> tuple[int, str]:
    """What ``/healthz`` of a role says; its port stands in its log."""
    log = (home / "logs" / f"{role}.log").read_text("utf-8", "replace")
    ports = re.findall(r'"metrics_port":(\d+)', log)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/healthz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


async def runs_of(home: Path) -> str:
    """What ``gatewright runs`` prints."""
    environment = {**os.environ, "GATEWRIGHT_HOME": str(home)}
    words = (sys.executable, "-m", "gatewright.app.cli.main", "runs")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    return (out + errors).decode()


async def until(what: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not await what():  # noqa: ASYNC110 - it is in other processes
            await asyncio.sleep(0.1)


async def any_state(client: Client, run_ids: list[str], wanted: str) -> bool:
    found: list[Run] = [await client.get(run_id) for run_id in run_ids]
    return any(run.state == wanted for run in found)


async def wait_fault(home: Path, seen: Seen) -> bool:
    """A stream is in write error as the server's own address has it; the state file cannot be written on a full volume."""
    (ports,) = (home / "nats").glob("*.ports")
    address = json.loads(ports.read_text())["monitoring"][0]
    try:
        await asyncio.to_thread(urllib.request.urlopen, f"{address}/healthz", None, 5)
    except urllib.error.HTTPError as error:
        seen.full_fault = error.read().decode()
        return True
    return False


async def unhealthy(home: Path, seen: Seen) -> bool:
    status, body = await asyncio.to_thread(health_of, home)
    if status == 503:
        seen.full_health = body.splitlines()
    return status == 503


async def healthy(home: Path, seen: Seen) -> bool:
    status, seen.after_health = await asyncio.to_thread(health_of, home)
    return status == 200


if __name__ == "__main__":
    outcome = asyncio.run(fill_under_work(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps(asdict(outcome)))  # noqa: T201 - it is what the program is for
