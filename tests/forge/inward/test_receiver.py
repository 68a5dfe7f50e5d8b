"""Webhooks: which are accepted, how often, and that none of them is more than a hint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest
from starlette.applications import Starlette

from gatewright.app.forge import receiver
from gatewright.app.forge.inward import Ordered
from gatewright.app.forge.receiver import BURST, Hook, Receiver, SeenDeliveries, serve_webhooks
from gatewright.app.forge.rest import MOST_DELIVERY_BYTES
from gatewright.app.http_access import listening_socket
from gatewright.errors import ConfigurationError
from tests.forge.inward.conftest import JudgedProject
from tests.forge.inward.known_forge import SECRET, KnownForge, delivered
from tests.gatekeeper.publishing import HandClock

PATH = "/hooks/shop"


@dataclass
class Served:
    """The receiver behind HTTP, in this process."""

    client: httpx2.AsyncClient
    hints: list[int]
    clock: HandClock

    async def deliver(self, headers: dict[str, str], body: bytes, path: str = PATH) -> int:
        return (await self.client.post(path, headers=headers, content=body)).status_code


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    def missing() -> bytes:
        raise ConfigurationError("no secret", code="forge_token_missing")

    clock, hints, forge = HandClock(), list[int](), KnownForge()
    secrets = {"shop": lambda: SECRET, "other": lambda: b"another secret", "bare": missing}
    hooks = {name: Hook(forge, secret, hints.append) for name, secret in secrets.items()}
    app = Starlette(routes=Receiver(hooks, clock.monotonic).routes())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://forge.example") as client:
        yield Served(client, hints, clock)


async def test_a_signed_delivery_names_a_request_to_read(served: Served) -> None:
    assert await served.deliver(*delivered(7)) == 202
    assert served.hints == [7]


async def test_a_wrong_secret_and_a_changed_body_change_nothing(served: Served) -> None:
    headers, body = delivered(7)
    assert await served.deliver(*delivered(7, secret=b"a guess")) == 401
    assert await served.deliver(headers, body.replace(b"7", b"8")) == 401
    assert await served.deliver({**headers, "x-hub-signature-256": ""}, body) == 401
    assert await served.deliver(headers, body, "/hooks/other") == 401
    assert await served.deliver(headers, body, "/hooks/unknown") == 404
    assert not served.hints


async def test_a_repeated_delivery_is_accepted_and_changes_nothing(served: Served) -> None:
    for _ in range(50):
        assert await served.deliver(*delivered(7)) == 202
    assert served.hints == [7]
    served.clock.seconds += 86_401
    assert await served.deliver(*delivered(7)) == 202
    assert served.hints == [7, 7]


async def test_a_body_that_is_too_large_is_refused_before_it_is_complete(served: Served) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1 << 20
            yield b"x" * (1 << 20)

    answer = await served.client.post(PATH, content=body())
    assert answer.status_code == 413
    assert sent <= MOST_DELIVERY_BYTES + (2 << 20)


async def test_a_body_that_does_not_arrive_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "_BODY_SECONDS", 0.01)

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    assert (await served.client.post(PATH, content=body())).status_code == 408


async def test_deliveries_of_one_address_are_limited(served: Served) -> None:
    for _ in range(int(BURST)):
        assert await served.deliver(*delivered(7, secret=b"a guess")) == 401
    answer = await served.client.post(PATH, content=b"")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    served.clock.seconds += 10
    assert await served.deliver(*delivered(7)) == 202


async def test_a_delivery_without_a_request_or_a_secret_changes_nothing(served: Served) -> None:
    headers, body = delivered(0)
    assert await served.deliver(headers, body, "/hooks/bare") == 503
    assert (await served.client.get(PATH)).status_code == 405
    assert not served.hints


def test_the_memory_of_deliveries_is_bounded() -> None:
    clock = HandClock()
    seen = SeenDeliveries(clock.monotonic, most=3)
    for number in range(5):
        seen.remember("shop", f"delivery-{number}")
    assert [seen.knows("shop", f"delivery-{number}") for number in range(5)] == [False, False, True, True, True]
    assert not seen.knows("other", "delivery-4")


async def test_the_server_answers_until_it_is_cancelled() -> None:
    hints: list[int] = []
    receiver = Receiver({"shop": Hook(KnownForge(), lambda: SECRET, hints.append)}, HandClock().monotonic)
    listening = listening_socket("127.0.0.1", 0)
    host, port = listening.getsockname()
    serving = asyncio.create_task(serve_webhooks(receiver, listening))
    headers, body = delivered(7)
    async with httpx2.AsyncClient(base_url=f"http://{host}:{port}") as client:
        assert (await client.post(PATH, headers=headers, content=body)).status_code == 202
    assert hints == [7]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_one_delivery_fifty_times_is_one_run(served: Served, project: JudgedProject) -> None:
    for _ in range(50):
        assert await served.deliver(*delivered(7)) == 202
    outcomes = [await project.inward.judge(number) for number in served.hints]
    assert [isinstance(outcome, Ordered) for outcome in outcomes] == [True]
    assert len(await project.intake.runs()) == 1
    assert project.forge.reads == 1
