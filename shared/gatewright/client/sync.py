"""The same client for code that is not asynchronous: every call waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gatewright.bus.identities import BusAddress
from gatewright.client.client import DEFAULT_URL, Client
from gatewright.contracts import (
    CanonicalMemory,
    OrchestratorEvent,
    RoleBindingReadModel,
    RunContext,
    RunList,
    RunRequest,
    RunStatus,
    SummonsList,
    TaskContract,
    WorkflowCaseReadModel,
)
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.people.summons import SummonsItem
from gatewright.contracts.vocabulary import Artifact
from gatewright.run.state import Run

T = TypeVar("T")


class SyncClient:
    """``with SyncClient(url) as client``: the methods of Client, each of them blocking.

    The asynchronous client runs on a thread of its own, so this one may be used from any thread, one call at a time.
    """

    def __init__(
        self,
        address: str | BusAddress = DEFAULT_URL,
        *,
        seed: Path | None = None,
        requested_by: str = "sdk",
        patience: float = 10.0,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gatewright-client", daemon=True)
        self._thread.start()
        try:
            self._client: Client = self._call(_connect(address, seed, requested_by, patience))
        except BaseException:
            self._stop_loop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Safe to call twice."""
        if self._thread.is_alive():
            self._call(self._client.close())
            self._stop_loop()

    def submit_request(self, request: RunRequest | Mapping[str, Any], *, patience: float = 0.0) -> str:
        return self._call(self._client.submit_request(request, patience=patience))

    def submit_contract(
        self, contract: TaskContract | Mapping[str, Any], *, idempotency_key: str | None = None, patience: float = 0.0
    ) -> str:
        return self._call(self._client.submit_contract(contract, idempotency_key=idempotency_key, patience=patience))

    def revert(self, run_id: str, *given: Any, **named: Any) -> str:
        """See ``Client.revert`` for the arguments."""
        return self._call(self._client.revert(run_id, *given, **named))

    def status(self, run_id: str) -> RunStatus:
        return self._call(self._client.status(run_id))

    def context(self, run_id: str, selectors: Sequence[str] = ("summary", "decisions"), *, scope: str = "brief") -> RunContext:
        return self._call(self._client.context(run_id, selectors, scope=scope))

    def memory(self, repository: str) -> CanonicalMemory:
        return self._call(self._client.memory(repository))

    def ended(self, run_id: str, *, timeout: float | None = None) -> RunStatus:
        return self._call(self._client.ended(run_id, timeout=timeout))

    def follow(self, run_id: str) -> Iterator[OrchestratorEvent]:
        events = self._client.follow(run_id)
        try:
            while (event := self._call(_next_event(events))) is not None:
                yield event
        finally:
            self._call(events.aclose())

    def list_runs(
        self, *, limit: int = 50, before: str | None = None, prefix: str | None = None, open_only: bool = False
    ) -> RunList:
        return self._call(self._client.list_runs(limit=limit, before=before, prefix=prefix, open_only=open_only))

    def wait(self, run_id: str, *, timeout: float | None = None) -> Run:
        return self._call(self._client.wait(run_id, timeout=timeout))

    def get(self, run_id: str) -> Run:
        return self._call(self._client.get(run_id))

    def role_binding(self, run_id: str) -> RoleBindingReadModel:
        return self._call(self._client.role_binding(run_id))

    def workflow_case(self, run_id: str, *, limit: int = 50) -> WorkflowCaseReadModel:
        return self._call(self._client.workflow_case(run_id, limit=limit))

    def events(self, run_id: str) -> tuple[OrchestratorEvent, ...]:
        return self._call(self._client.events(run_id))

    def runs(self) -> tuple[Run, ...]:
        return self._call(self._client.runs())

    def abort(self, run_id: str, reason: str) -> None:
        self._call(self._client.abort(run_id, reason))

    def summon(self, run_id: str, items: Sequence[SummonsItem], *, key: str | None = None) -> SummonsList:
        return self._call(self._client.summon(run_id, items, key=key))

    def summonses(self, run_id: str) -> SummonsList:
        return self._call(self._client.summonses(run_id))

    def summons_answered(self, asked: SummonsList, *, timeout: float | None = None) -> SummonsList:
        return self._call(self._client.summons_answered(asked, timeout=timeout))

    def merge_queues(
        self, *, repository: str = "", branch: str = "", queue_id: str | None = None
    ) -> tuple[MergeQueueView, ...]:
        return self._call(self._client.merge_queues(repository=repository, branch=branch, queue_id=queue_id))

    def merge_act(self, action: MergeActionKind, **named: Any) -> MergeQueueView:
        """See ``Client.merge_act`` for the arguments."""
        return self._call(self._client.merge_act(action, **named))

    def put_artifact(self, data: bytes) -> str:
        return self._call(self._client.put_artifact(data))

    def get_artifact(self, uri: str) -> bytes:
        return self._call(self._client.get_artifact(uri))

    def attach(self, name: str, data: bytes) -> Artifact:
        return self._call(self._client.attach(name, data))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: the call must not go on behind the caller's back.
            future.cancel()
            raise

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _connect(address: str | BusAddress, seed: Path | None, requested_by: str, patience: float) -> Client:
    return await Client.connect(address, seed=seed, requested_by=requested_by, patience=patience)


async def _next_event(events: AsyncIterator[OrchestratorEvent]) -> OrchestratorEvent | None:
    return await anext(events, None)
