"""Task tokens: a task is dispatched with a token, and its answer must carry it. A process without the task cannot answer it.

All processes of a role share its subjects, and task ids can be guessed. The token is a keyed hash of the task's name that only
gatekeepers can compute, so it needs no storage. It travels in a header; neither ledger nor bundle contains it.
"""

from __future__ import annotations

import hmac

from gatewright.bus.port import TASK_TOKEN_HEADER, Bus, Message
from gatewright.contracts import TaskContract
from gatewright.errors import DeniedError
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import RoleReplied, UsageReceived


def task_token(bus: Bus, run_id: str, task_id: str) -> str:
    """Return the token of a task: 64 hexadecimal digits."""
    return _tokens(bus, run_id, task_id)[0]


def check_held(bus: Bus, run: Run, item: RoleReplied | UsageReceived, message: Message) -> None:
    """Refuse a message in the name of a task from a process that does not hold the task.

    A pm's answer is the contract itself, which refers to no task of the run, so a pm may answer its own task. The decider
    handles a message that refers to no task of this role.

    Raises:
        DeniedError: the token is missing or wrong (``task_not_held``).
    """
    named = None if isinstance(item.document, TaskContract) else item.document.task_id
    tasks = [task.task_id for task in run.tasks.values() if task.role == item.role and named in (None, task.task_id)]
    tasks += [task_id for task_id, asked in run.summonses.items() if asked.task.item.role == item.role and named == task_id]
    brought = message.headers.get(TASK_TOKEN_HEADER, "")
    valid = [token for task_id in tasks for token in _tokens(bus, run.run_id, task_id)]
    if tasks and not any(_same(token, brought) for token in valid):
        raise DeniedError(f"an answer for {tasks[0]} without the token of the task", code="task_not_held")


def check_claimed(bus: Bus, run_id: str, task_id: str, message: Message) -> None:
    """Refuse a claim that a task is in progress from a process that does not hold the task.

    Raises:
        DeniedError: the token is missing or wrong (``task_not_held``).
    """
    brought = message.headers.get(TASK_TOKEN_HEADER, "")
    if not any(_same(token, brought) for token in _tokens(bus, run_id, task_id)):
        raise DeniedError(f"a claim for {task_id[:80]} without the token of the task", code="task_not_held")


def _tokens(bus: Bus, run_id: str, task_id: str) -> tuple[str, ...]:
    """Return the token to dispatch with, followed by the tokens of earlier gatekeeper keys."""
    return bus.keyed_hashes(f"task:{run_id}:{task_id}")


def _same(token: str, brought: str) -> bool:
    return hmac.compare_digest(token.encode(), brought.encode("utf-8", "surrogateescape"))
