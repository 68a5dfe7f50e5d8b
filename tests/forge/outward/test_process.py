"""The process: it outlives forges that are away, takes webhooks as hints, and shows its health."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2

from gatewright.app.feed.follower import BoardFollower
from gatewright.app.feed.link import LedgerLink
from gatewright.app.forge.adapters import connect_forge
from gatewright.app.forge.metrics import ForgeMetrics
from gatewright.app.forge.process import ForgeProcess
from gatewright.app.forge.receiver import Hook, Receiver, serve_webhooks
from gatewright.app.http_access import listening_socket
from gatewright.errors import UnavailableError
from gatewright.telemetry.logs import make_logger
from tests.forge.outward.keepers import SCENARIOS, keeper_of
from tests.forge.outward.runs import ENTRY, ForgeRun, board_of
from tests.forge.outward.test_keeper import RecordedJudge
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import Standin
from tests.waiting import until


@contextlib.asynccontextmanager
async def task_of(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run ``work`` for the time of a block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def follower_of(*runs: ForgeRun) -> BoardFollower:
    """A follower that has read these runs, and hears of no other."""
    follower = BoardFollower(cast("Any", None))
    follower.board = board_of(*runs)
    return follower


async def test_a_keeper_outlives_a_forge_that_is_away() -> None:
    with Standin("github") as forge:
        SCENARIOS["own branch"].prepare(forge.state)
        run = ForgeRun(key="own").succeed()
        forge.fail(Fault(status=502, body=b"bad gateway"))
        async with (
            keeper_of(ENTRY, "github", forge.api, forge.token, [run]) as keeper,
            task_of(keeper.keep(follower_of(run))) as keeping,
        ):
            await until(lambda: len(forge.app.calls) > 0)
            forge.recover()
            await until(lambda: bool(forge.state.statuses))
            assert not keeping.done()
    assert [status.state for status in forge.state.statuses] == ["success"]


async def test_a_webhook_has_its_request_read_and_a_forged_one_changes_nothing() -> None:
    judge = RecordedJudge()
    with Standin("github") as forge, listening_socket("127.0.0.1", 0) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/hooks/shop"
        async with (
            connect_forge("github", forge.api, forge.project, lambda: forge.token) as port,
            keeper_of(ENTRY, "github", forge.api, forge.token, [], judge=judge) as keeper,
        ):
            receiver = Receiver({"shop": Hook(port, lambda: forge.secret, keeper.hint)}, time.monotonic)
            run = ForgeRun(key="any", repository="/srv/other").begin()
            async with task_of(serve_webhooks(receiver, listening)), httpx2.AsyncClient(trust_env=False) as sender:
                headers, body = forge.webhook(7)
                forged = {**headers, "x-hub-signature-256": "sha256=" + "0" * 64}
                answers = [await sender.post(address, content=body, headers=sent) for sent in (forged, headers, headers)]
                assert [answer.status_code for answer in answers] == [401, 202, 202]
                await until(lambda: bool(keeper._hints))
                await keeper.round(board_of(run))
    assert judge.seen == [(7, "hint")]


async def test_the_process_needs_the_ledger_and_ends_when_stopped() -> None:
    def away() -> Any:
        raise UnavailableError("no system", code="no_stack")

    process = ForgeProcess([], LedgerLink(away), ForgeMetrics(["shop"]), make_logger(level="error"))
    async with task_of(process.run("127.0.0.1", 0)) as running, httpx2.AsyncClient(trust_env=False) as reader:
        await until(lambda: process.port > 0)
        at = f"http://127.0.0.1:{process.port}"
        found = {path: (await reader.get(at + path)) for path in ("/healthz", "/readyz", "/metrics")}
        process.stop.set()
        await until(running.done)
        assert running.exception() is None
    assert [answer.status_code for answer in found.values()] == [200, 503, 200]
    assert 'gatewright_forge_alarms_total{forge="shop"} 0.0' in found["/metrics"].text
