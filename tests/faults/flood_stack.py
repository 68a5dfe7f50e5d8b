"""The stack that is flooded: two workers, a project for honest runs, and a connection for every identity of the bus."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.aio.client import Client as Nats

from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus import identities
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX
from tests.git.repositories import Repository


@dataclass(frozen=True)
class FloodedStack:
    """``clients``: raw connections by identity, which refuse nothing themselves. ``refusals``: the server's, by subject."""

    supervisor: Supervisor
    clients: dict[str, Nats]
    operator: JetStreamBus
    project: Path
    refusals: Counter[str]


@contextlib.asynccontextmanager
async def flooded_stack(root: Path) -> AsyncIterator[FloodedStack]:
    """A running stack below ``root``."""
    home = root / "home"
    make_home(home)
    project = make_project(root / "project")
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    supervisor = Supervisor(StackOptions(home=home, base_environment=base, workers=2, environments=(PREFIX,), shared=True))
    await supervisor.start()
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(supervisor.stop)
        await supervisor.ready(60.0)
        operator = await JetStreamBus.connect(supervisor.address, name="operator")
        opened.push_async_callback(operator.close)
        made = FloodedStack(supervisor, {}, operator, project, Counter())
        for identity in identities.STANDING:
            made.clients[identity] = await _connect(supervisor, identity, made.refusals)
            opened.push_async_callback(made.clients[identity].close)
        yield made


async def _connect(supervisor: Supervisor, identity: str, refusals: Counter[str]) -> Nats:
    credential = identities.load(seed_file(bus_keys(supervisor.options.home), identity))

    async def on_error(error: Exception) -> None:
        words = str(error)
        if "permissions violation for publish to" in words.lower():
            refusals[words.split('"')[1]] += 1

    return await nats.connect(
        supervisor.address.url,
        nkeys_seed_str=credential.seed,
        inbox_prefix=f"_INBOX_{identity}",
        error_cb=on_error,
        pending_size=64 << 20,
    )


def make_project(path: Path) -> Path:
    home = path.with_name("home-of-project")
    for folder in (home, path):
        folder.mkdir()
    repository = Repository(path, home)
    repository.git("init", "--quiet", "--template=", "--initial-branch=main")
    repository.commit(FILES, "first")
    return path
