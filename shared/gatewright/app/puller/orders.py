"""Orders of environments: each is carried out once, however many senders repeat it, and however often.

1. an order is known by its digest; its senders wait for the same work  2. an answer comes within seconds, also while the work
lasts, so that a lost answer or sender costs nothing  3. orders that run, and those that wait, are bounded, for each publisher
as well  4. between pullers on one volume, the file locks of ``made_once`` decide; a killed one leaves nothing that counts.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from gatewright.app.cli.settings import host_installer
from gatewright.app.environments.order import fill_order
from gatewright.app.environments.plan import Note
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import ENVIRONMENT_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import EnvironmentOrder, EnvironmentResult, codec
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.errors import ConfigurationError, GatewrightError, LimitError, UnavailableError
from gatewright.host_errors import check_room, host_errors
from gatewright.service.process import Service
from gatewright.service.settings import ServiceSettings
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metric_list import TaskOutcome
from gatewright.telemetry.metrics import Metrics

#: Seconds after which an order is answered with its progress. The server closes a reply path after twenty.
HOLD_SECONDS: Final = 8.0
#: Orders that run or wait: of all publishers, and of one.
MOST_ORDERS: Final = 64
MOST_OF_PUBLISHER: Final = 16
_RETRY_AFTER: Final = 10.0
_MOST_NOTES: Final = 100
_LONGEST_NOTE: Final = 500
#: Those of all publishers.
_SUBJECTS: Final = (ENVIRONMENT_SUBJECT, f"{ENVIRONMENT_SUBJECT}.*")

Fill = Callable[[EnvironmentOrder, Note], Awaitable[tuple[OrderedEnvironment, ...]]]


@dataclass(slots=True)
class _Work:
    publisher: str
    task: asyncio.Task[tuple[OrderedEnvironment, ...]]
    notes: list[str]


def _keep_note(notes: list[str], words: str) -> None:
    if len(notes) < _MOST_NOTES:
        notes.append(words[:_LONGEST_NOTE])


class OrderDesk:
    """Answers orders. ``fill`` carries one out; ``concurrency`` of them run at the same time, and ``metrics`` count them."""

    def __init__(self, fill: Fill, concurrency: int, log: Logger, metrics: Metrics, *, hold: float = HOLD_SECONDS) -> None:
        self._fill, self._log, self._metrics, self._hold = fill, log, metrics, hold
        self._turns = asyncio.Semaphore(concurrency)
        self._works: dict[str, _Work] = {}

    async def answer(self, message: Message) -> Reply:
        """Return the result of an order, or its progress; a refusal as ``error.v1``."""
        try:
            return reply(await self._result(message))
        except GatewrightError as error:
            self._log.info("order_refused", code=error.reason, cause=error.message[:_LONGEST_NOTE])
            return reply(error_document(error))

    async def close(self) -> None:
        """End all work. What is half installed is removed."""
        tasks = [work.task for work in self._works.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _result(self, message: Message) -> EnvironmentResult:
        digest = hashlib.sha256(message.data).hexdigest()
        work = self._works.get(digest) or self._begin_work(digest, message)  # 1
        await asyncio.wait({work.task}, timeout=self._hold)  # 2
        notes = tuple(work.notes)
        if not work.task.done():
            return EnvironmentResult(order_sha256=digest, state="PREPARING", notes=notes)
        if work.task.cancelled():
            raise UnavailableError("the puller is being stopped: send the order again", code="service_stopping")
        return EnvironmentResult(order_sha256=digest, state="READY", environments=work.task.result(), notes=notes)

    def _begin_work(self, digest: str, message: Message) -> _Work:
        publisher = message.subject.removeprefix(ENVIRONMENT_SUBJECT).removeprefix(".")
        order = codec.decode(message.data, EnvironmentOrder)
        held = Counter(work.publisher for work in self._works.values())
        if held.total() >= MOST_ORDERS or held[publisher] >= MOST_OF_PUBLISHER:  # 3
            words = f"{held.total()} orders of environments run or wait, {held[publisher]} of them of this publisher"
            raise LimitError(words, retry_after=_RETRY_AFTER, code="service_busy")
        notes: list[str] = []
        work = _Work(publisher, asyncio.create_task(self._in_turn(order, lambda words: _keep_note(notes, words))), notes)
        self._works[digest] = work
        work.task.add_done_callback(lambda task: self._forget_order(digest, task))
        return work

    async def _in_turn(self, order: EnvironmentOrder, note: Note) -> tuple[OrderedEnvironment, ...]:
        if self._turns.locked():
            note("waiting for other orders of environments")
        async with self._turns:
            with self._measured(), host_errors():
                return await self._fill(order, note)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Count an order as a task of the puller, with its outcome and duration."""
        self._metrics.task_taken(redelivered=False)
        begun = time.monotonic()
        outcome: TaskOutcome = "crashed"
        try:
            yield
            outcome = "answered"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except GatewrightError:
            outcome = "refused"
            raise
        finally:
            self._metrics.task_ended(outcome, time.monotonic() - begun)

    def _forget_order(self, digest: str, task: asyncio.Task[tuple[OrderedEnvironment, ...]]) -> None:
        """Forget the work. Its senders hold it; a later order finds the folder, or tries again."""
        del self._works[digest]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, GatewrightError):
            self._log.error("order_failed", cause=repr(error)[:_LONGEST_NOTE])


class PullerSettings(ServiceSettings):
    """Settings of the puller. ``own_registries``: without ``egress.json``, those of this host's configuration are allowed."""

    own_registries: bool = False


async def serve_orders(service: Service, settings: PullerSettings) -> None:
    """Answer orders until shutdown. Raises ConfigurationError: ``egress.json`` is invalid at the start."""
    if host_installer(settings.policies).egress is None and not settings.own_registries:
        service.log.warning("egress_policy_missing", folder=str(settings.policies))
    desk = OrderDesk(partial(_fill, settings, service.log), settings.concurrency, service.log, service.metrics)
    await service.register(dict.fromkeys(_SUBJECTS, desk.answer), waiting=_SUBJECTS)
    await service.stop.wait()
    await desk.close()


async def _fill(settings: PullerSettings, log: Logger, order: EnvironmentOrder, note: Note) -> tuple[OrderedEnvironment, ...]:
    """Carry out an order under the policy of this moment: without a valid one nothing is read."""
    try:
        installer = await asyncio.to_thread(host_installer, settings.policies)
    except ConfigurationError as error:
        log.warning("egress_policy_invalid", cause=error.message[:_LONGEST_NOTE])
        words = "the puller's egress.json is invalid since a change: its operator finds the cause in its log"
        raise UnavailableError(words, code=error.reason) from error
    if installer.egress is None and not settings.own_registries:
        words = f"the puller has no egress.json in {settings.policies}: it prepares environments from permitted registries only"
        raise UnavailableError(words, code="egress_policy_missing")
    check_room(settings.home)
    return await fill_order(settings.home, order, installer, note)
