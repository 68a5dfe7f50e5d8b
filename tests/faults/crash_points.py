"""Points inside a gatekeeper at which it can be made to die; ``pointed_gatekeeper`` is the program that has them.

A point is armed by a file of its name in the folder ``CRASH_POINTS``. Whoever comes to an armed point first takes the file
away and kills itself with SIGKILL: nothing is cleaned up, flushed or closed. The gatekeeper is the real one; only at the seams
between its steps somebody looks whether a file is there.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewright.bus.jetstream.deliveries import JetStreamDelivery
from gatewright.contracts import Transition
from gatewright.evidence.disk import Disk
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger, Position
from gatewright.services.gatekeeper.budget_accounts import BudgetAccounts
from gatewright.services.gatekeeper.dispatch.dispatcher import Dispatcher
from gatewright.services.gatekeeper.gates import engine as judge
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks

FOLDER = "CRASH_POINTS"
#: Transitions of an undisturbed run from a request: accepted, compiled, planned, locked, worked, composed, reviewed, tested,
#: landed, sealed.
TRANSITIONS = 10
#: Those that give out a task: pm, tech lead, worker, reviewer, test runner.
DISPATCHING = (1, 2, 4, 6, 7)
ROLES = ("pm", "techlead", "worker", "reviewer", "testrunner")
#: Steps of writing a bundle; there are some sixty.
SEALING = (1, 2, 5, 10, 20, 30, 40)
POINTS: tuple[str, ...] = (
    *(f"before_append.{number}" for number in range(1, TRANSITIONS + 1)),
    *(f"after_append.{number}" for number in range(1, TRANSITIONS + 1)),
    *(f"after_publish.{number}" for number in DISPATCHING),
    *(f"before_ack.{role}" for role in ROLES),
    "locks_taken",
    "before_landing",
    "after_landing",
    "before_seal",
    *(f"sealing.{step}" for step in SEALING),
    "before_rename",
    "after_rename",
    "after_seal",
)


def reach(point: str) -> None:
    """Die here when the point is armed."""
    armed = Path(os.environ[FOLDER], point)
    try:
        armed.rename(armed.with_name(f"{point}@{os.getpid()}"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _around(
    owner: Any, name: str, *, before: Callable[..., str] | None = None, after: Callable[..., str] | None = None
) -> None:
    """Put points around a coroutine function; ``before`` and ``after`` name the point from its arguments."""
    original: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(original)
    async def wrapped(*args: Any, **named: Any) -> Any:
        if before is not None:
            reach(before(*args))
        result = await original(*args, **named)
        if after is not None:
            reach(after(*args))
        return result

    setattr(owner, name, wrapped)


def _number(_ledger: Ledger, _position: Position, transition: Transition) -> int:
    return transition.number


class _Steps(threading.local):
    """Steps of the disk on the thread that seals; -1 elsewhere."""

    count = -1


def _watch_sealing() -> None:
    steps = _Steps()
    seal = BundleWriter._seal

    def sealing(self: BundleWriter, run_id: str, files: Mapping[str, bytes], manifest: bytes) -> Path:
        steps.count = 0
        try:
            return seal(self, run_id, files, manifest)
        finally:
            steps.count = -1

    def stepping(name: str) -> None:
        original: Callable[..., Any] = getattr(Disk, name)

        @functools.wraps(original)
        def step(*args: Any) -> Any:
            if steps.count < 0:
                return original(*args)
            steps.count += 1
            reach(f"sealing.{steps.count}")
            if name != "rename":
                return original(*args)
            reach("before_rename")
            result = original(*args)
            reach("after_rename")
            return result

        setattr(Disk, name, step)

    BundleWriter._seal = sealing  # type: ignore[method-assign] # this is what the module is for
    for name in ("create", "protect", "sync", "make_folder", "rename", "remove"):
        stepping(name)


def _role_of(delivery: JetStreamDelivery) -> str:
    return delivery.message.subject.rpartition(".")[2]


def put_points() -> None:
    _around(
        Ledger,
        "append",
        before=lambda *args: f"before_append.{_number(*args)}",
        after=lambda *args: f"after_append.{_number(*args)}",
    )
    _around(Dispatcher, "give", after=lambda _self, run, _commands: f"after_publish.{run.transitions}")
    _around(JetStreamDelivery, "ack", before=lambda delivery: f"before_ack.{_role_of(delivery)}")
    _around(PathLocks, "take", after=lambda *_args: "locks_taken")
    _around(judge, "land", before=lambda *_args: "before_landing", after=lambda *_args: "after_landing")
    _around(BudgetAccounts, "reserve", after=lambda *_args: "reserved")
    _around(BundleWriter, "seal", before=lambda *_args: "before_seal", after=lambda *_args: "after_seal")
    _watch_sealing()


def fired(folder: Path) -> Sequence[str]:
    """The points at which somebody died, and is known to have."""
    return [path.name.partition("@")[0] for path in folder.glob("*@*")]
