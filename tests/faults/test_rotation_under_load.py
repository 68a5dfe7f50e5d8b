"""The gatekeeper's key is replaced by the book, twice, while runs are in flight: no run is lost and none lands twice."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from gatewright.app.stack.nats_server import CONFIG_FILE
from gatewright.bus.identities import seed_file
from tests.command_line import invoke_in
from tests.faults.fault_stack import House, open_house
from tests.faults.load import Load, judge, reached
from tests.waiting import PATIENCE

#: Transitions of a run after which its workers have tasks whose tokens were made under the key of then.
_AT_WORK = 2
_ROTATIONS = 2


async def rotate(house: House, *more: str) -> None:
    """``gatewright identities rotate gatekeeper`` on the files of this house's server."""
    home = house.homes[0]
    (server,) = house.pids("nats-server")
    pid = house.root / "nats.pid"
    pid.write_text(f"{server}\n")
    config = next(Path(home).rglob(CONFIG_FILE))
    keys = seed_file(home / "bus", "gatekeeper").parent
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(house.root),
        "GATEWRIGHT_HOME": str(home),
        "GATEWRIGHT_NATS_URL": house.supervisor.address.url,
    }
    files = ("--keys", str(keys), "--config", str(config), "--pid", str(pid))
    line = ("identities", "rotate", "gatekeeper", *more, *files, "--json")
    done = await asyncio.to_thread(invoke_in, house.root, environment, line)
    assert done.returncode == 0, (done.stdout, done.stderr)


async def test_runs_in_flight_outlast_rotations_of_the_gatekeepers_key(tmp_path: Path) -> None:
    async with open_house(tmp_path, workers=2) as house:
        load = Load(house, repositories=4)
        for _ in range(_ROTATIONS):
            for number in range(3):
                await load.give(durable=number == 0)
            await reached(house, load.given[-1], _AT_WORK)
            await rotate(house)
            # A gatekeeper that starts now gives tokens out that the finished rotation must still accept.
            await house.back("gatekeeper", house.kill("gatekeeper", signal.SIGTERM))
            await reached(house, await load.give(), _AT_WORK)
            await rotate(house, "--finish")
            await load.give()
        await load.settle(PATIENCE)
        outcome = await judge(house, load.given)
        assert outcome.faults == {}
        assert outcome.sealed == outcome.runs == 5 * _ROTATIONS
