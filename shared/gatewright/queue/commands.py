"""The commands that the gatekeeper has to carry out now. The same queue gives the same commands with the same ids."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.queue_receipt import Tip
from gatewright.queue.state import Entry, Queue, runs_in


@dataclass(frozen=True, slots=True)
class Compose:
    """Put the changes of ``entries`` on top of ``onto``, one commit each. Reply ``PositionComposed`` or ``ConflictFound``."""

    command_id: str
    position: int
    onto: Tip
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """Run the standing commands, and the acceptance commands of ``runs``, on ``tree``. Reply ``Tested``.

    ``runs``: every run that the tree has on top of the base; empty for the base itself. ``timeout_s`` is in seconds.
    """

    __test__ = False

    command_id: str
    number: int
    tree: str
    runs: tuple[str, ...]
    policy_sha256: str
    standing_commands: tuple[tuple[str, ...], ...]
    timeout_s: int


@dataclass(frozen=True, slots=True)
class Land:
    """Move the branch from ``before`` to ``after`` by compare-and-swap.

    Reply ``Landed``, ``LandingRefused``, or ``BaseMoved`` where the branch points elsewhere.
    """

    command_id: str
    position: int
    runs: tuple[str, ...]
    before: str
    after: str


Command = Compose | Test | Land


def commands(queue: Queue, policy: QueuePolicy) -> tuple[Command, ...]:
    """Return the commands to carry out now.

    A command whose ``command_id`` was carried out before gets its reply again, and is not repeated. A held queue still finishes
    the tests and the push under way.
    """
    due: list[Command] = []
    landing = queue.until(queue.landing)
    if landing:
        last = landing[-1]
        number = f"land-{queue.pushes}"
        due.append(Land(number, last.number, tuple(runs_in(landing)), queue.base.commit, last.commits[-1]))
    for test in queue.tests.values():
        holds = queue.runs_of(test.tree)
        runs = tuple(run_id for run_id in runs_in(queue.line) if run_id in holds)
        seconds = policy.timeouts.test_s
        number = f"test-{test.number}"
        due.append(Test(number, test.number, test.tree, runs, queue.policy_sha256, policy.standing_commands, seconds))
    pending = next((each for each in queue.line if not each.tree), None)
    onto = queue.tip_before(pending) if pending is not None else None
    if pending is not None and onto is not None and not queue.held:
        entries = tuple(queue.entries[run_id].entry for run_id in pending.runs)
        due.append(Compose(f"compose-{pending.number}", pending.number, onto, entries))
    return tuple(due)


#: Prefix of the run ids that tests of queues have. No run has such an id: ids of runs begin with ``run-``.
_TEST = re.compile(r"queue-([0-9a-f]{20})-([1-9][0-9]{0,8})\Z")  # noqa: TID251 - linear: of a fixed length
_PART = re.compile(r"part-([0-9]{1,4})\Z")  # noqa: TID251 - linear: of a fixed length


class QueueTest(NamedTuple):
    """A test of a queue: its queue and its number."""

    queue_id: str
    number: int


def queue_id_of(repository_key: str, branch: str) -> str:
    """Return the id of the queue of a branch: 20 hexadecimal digits of a sha256 over repository, NUL and full ref name."""
    return hashlib.sha256(f"{repository_key}\0{branch}".encode("utf-8", "surrogatepass")).hexdigest()[:20]


def run_id_of_test(queue_id: str, number: int) -> str:
    """Return the run id that the tasks of a test name, in place of a run."""
    return f"queue-{queue_id}-{number}"


def task_id_of_part(part: int) -> str:
    """Return the task id of a part of a test, unique within the test."""
    return f"part-{part:04d}"


def read_run_id_of_test(run_id: str) -> QueueTest | None:
    """Return the test that a run id names; None for the id of a run."""
    found = _TEST.match(run_id)
    return QueueTest(found[1], int(found[2])) if found is not None else None


def read_task_id_of_part(task_id: str) -> int | None:
    """Return the part that a task id names; None for other tasks."""
    found = _PART.match(task_id)
    return int(found[1]) if found is not None else None
