"""Options in requests to JetStream: permissions hold subjects alone, so each restricted identity tries them out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats.errors
import pytest
from nats.aio.client import Client

from gatewright.bus import identities
from gatewright.bus.identity_limits import IdentityLimits
from gatewright.bus.permissions import access_of
from tests.faults.bus_parties import NAMED, SIBLING, Bus, Mode, Party, connect, open_bus

#: What a message has that an identity without the right to it must not learn: its text, and the last token of its subject.
TEXT, NAME = "secret text of another", "run-0000000000000000feed"
OPTIONS: tuple[dict[str, object], ...] = (
    {"subjects_filter": ">"},
    {"SUBJECTS_FILTER": ">"},
    {"deleted_details": True},
    {"offset": 0},
    {"subject": ">"},
    {"last_by_subj": ">"},
    {"next_by_subj": ">", "seq": 1},
    {"multi_last": [">"]},
    {"seq": 1},
    {"batch": 10, "no_wait": True},
)
#: Who sees subjects or texts of others, by design: the watcher reads the ledger.
READERS = frozenset({identities.WATCHER})
RESTRICTED = (identities.OBSERVER, identities.APPROVER, identities.PUBLISHER, NAMED, "worker", SIBLING, identities.WATCHER)


@pytest.fixture(params=["configuration", pytest.param("operator", marks=pytest.mark.long)])
async def bus(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    mode: Mode = request.param
    async with open_bus(tmp_path, mode) as opened:
        gatekeeper = opened.parties["gatekeeper"].client
        for subject in (f"gw.run.{NAME}", f"gw.task.techlead.default.normal.{NAME}", f"gw.artifact.gatekeeper.{NAME}.0"):
            await gatekeeper.publish(subject, TEXT.encode())
        await opened.parties[identities.PUBLISHER].client.publish(f"gw.upload.default.{NAME}.0", TEXT.encode())
        await opened.settle()
        yield opened


async def learned(bus: Bus, identity: str, call: str, options: dict[str, object]) -> bytes:
    """What the server answers on a connection of its own; nothing where it refuses, which may close the connection."""
    party = Party(bus.parties[identity].access, Client())
    await connect(party, bus.server)
    subject = f"gw.js.{call.replace('>', f'{NAME}.0').replace('*', 'c')}"
    try:
        return (await party.client.request(subject, msgspec.json.encode(options), timeout=0.5)).data
    except (nats.errors.Error, TimeoutError, OSError):
        return b""
    finally:
        await party.client.close()


@pytest.mark.parametrize("identity", RESTRICTED)
async def test_no_option_of_a_request_reveals_what_others_sent(bus: Bus, identity: str) -> None:
    own = identities.publisher_of(identity) == identities.DEFAULT_PUBLISHER
    places = asyncio.Semaphore(24)

    async def ask(call: str, options: dict[str, object]) -> None:
        async with places:
            answer = (await learned(bus, identity, call, options)).decode()
        assert NAME not in answer or identity in READERS, (identity, call, options, answer)

    # A role reads artifacts by their digests, and a publisher what it uploaded itself.
    calls = [
        call
        for call in bus.parties[identity].access.calls()
        if call != "STREAM.MSG.GET.ARTIFACTS" and not (own and call.startswith("DIRECT.GET."))
    ]
    await asyncio.gather(*(ask(call, options) for call in calls for options in OPTIONS))


async def test_an_observer_still_learns_its_figures(bus: Bus) -> None:
    for call in access_of(identities.OBSERVER).calls():
        assert b'"error":' not in await learned(bus, identities.OBSERVER, call, {})
    answer = await learned(bus, identities.OBSERVER, "STREAM.INFO.RUNS", {"offset": 256})
    assert msgspec.json.decode(answer)["state"]["messages"] == 1


def test_an_operator_cannot_raise_the_bound_of_an_observers_requests() -> None:
    shipped = access_of(identities.OBSERVER).limits
    assert 0 < shipped.payload < len(b'{"subjects_filter":">"}')
    assert IdentityLimits(payload=1 << 20).over(shipped).payload == shipped.payload
