"""Ids of queues and of their tests. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

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
