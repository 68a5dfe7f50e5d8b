"""Identities that are added, revoked and replaced while a server runs and messages are on their way."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.topology import apply_topology
from gatewright.app.stack.nats_server import CONFIG_FILE, NatsServer
from gatewright.bus import identities, identity_changes, identity_limits
from gatewright.bus.identities import PROVISIONER, BusAddress, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.operator_mode.files import make_jwt
from gatewright.bus.port import Message, Reply
from gatewright.bus.server_config import accounts
from gatewright.bus.topology import DEFAULT_POOL, RUNS_SUBJECT, task_consumer, upload_stream
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import RunList
from gatewright.errors import BusError, ConfigurationError, GatewrightError, UnavailableError
from gatewright.services.gatekeeper.intake.publishers import sender
from gatewright.services.gatekeeper.policies.publishers import Publishers
from tests.command_line import invoke_in
from tests.gatekeeper.publishing import make_publisher

QUEUE = task_consumer("worker")
MANY = 200


@dataclass
class House:
    """A server with two workers' identities, as an operator has it."""

    folder: Path
    server: NatsServer
    lost: dict[str, BusError] = field(default_factory=dict)
    loss_noticed: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    @property
    def keys(self) -> Path:
        return self.folder / "bus"

    async def connect(self, identity: str) -> JetStreamBus:
        def lost(error: BusError) -> None:
            self.lost[identity] = error
            self.loss_noticed[identity].set()

        name = identity.partition("-")[0]
        return await JetStreamBus.connect(self.server.address(identity), name=name, on_lost=lost, patience=5)

    async def wait_for_loss(self, identity: str) -> None:
        """Until a connection of ``identity`` has noticed that it is refused, which it does in its own time."""
        await self.loss_noticed[identity].wait()

    async def refused(self, seed: Path) -> bool:
        try:
            bus = await JetStreamBus.connect(BusAddress(self.server.url, seed), name="tried", patience=5)
        except BusError as error:
            return error.reason == "credential_refused"
        await bus.close()
        return False

    async def command(self, *words: str, code: int = 0, tell: bool = True) -> Any:
        """An ``identities`` command, on this server's files, with its process file."""
        (self.folder / "nats.pid").write_text(f"{self.server.pid}\n")
        files = ("--config", str(self.folder / "nats" / CONFIG_FILE)) if words[0] not in ("list", "check") else ()
        pid = ("--pid", str(self.folder / "nats.pid")) if files and tell else ()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GATEWRIGHT_HOME": str(self.folder / "home"),
            "GATEWRIGHT_NATS_URL": self.server.url,
        }
        line = ("identities", *words, "--keys", str(self.keys), *files, *pid, "--json")
        done = await asyncio.to_thread(invoke_in, self.folder, environment, line)
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout or "null")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    identities.make(tmp_path / "bus", (*identities.STANDING, "worker-2"))
    table = accounts(identities.public_keys(tmp_path / "bus"))
    async with await NatsServer.launch(tmp_path / "nats", table, tmp_path / "bus") as server:
        await ensure_topology(server.address(PROVISIONER))
        yield House(tmp_path, server)


async def take_all(bus: JetStreamBus, taken: list[bytes], enough: asyncio.Event) -> None:
    """Take tasks until the connection is refused, or ``enough`` have come."""
    try:
        subscription = await bus.consume(QUEUE)
        while not enough.is_set():
            delivery = await subscription.next(0.2)
            if delivery is not None:
                await delivery.ack()
                taken.append(delivery.message.data)
                if len(set(taken)) == MANY:
                    enough.set()
    except BusError:
        return


async def test_a_revocation_takes_effect_immediately_and_disturbs_no_other_identity(house: House) -> None:
    gatekeeper, worker, gone = [await house.connect(name) for name in ("gatekeeper", "worker", "worker-2")]
    old = house.folder / "worker-2.nk"
    old.write_bytes(seed_file(house.keys, "worker-2").read_bytes())
    old.chmod(0o600)
    taken: list[bytes] = []
    enough, half = asyncio.Event(), asyncio.Event()

    async def give() -> None:
        for number in range(MANY):
            await gatekeeper.publish(QUEUE.subject, b"%d" % number, schema="s", message_id=f"m{number}")
            if number == MANY // 2:
                half.set()

    process = house.server.pid
    async with asyncio.TaskGroup() as group:
        for bus in (worker, gone):
            group.create_task(take_all(bus, taken, enough))
        group.create_task(give())
        await half.wait()
        told = await house.command("revoke", "worker-2")
        assert told["confirmed"] is True
        await enough.wait()
        await house.wait_for_loss("worker-2")
    # Delivered at least once: what was cut off between the task and its acknowledgement comes to another.
    assert sorted(set(taken), key=int) == [b"%d" % number for number in range(MANY)]
    assert list(house.lost) == ["worker-2"]
    assert [bus.connection.client.stats["reconnects"] for bus in (gatekeeper, worker)] == [0, 0]
    assert house.server.pid == process
    assert await house.refused(old)
    assert not (house.keys / "revoked").exists() or not list((house.keys / "revoked").rglob("*.nk"))
    for bus in (gatekeeper, worker, gone):
        await bus.close()


async def test_a_publisher_that_is_added_publishes_without_a_restart(house: House) -> None:
    gatekeeper = await house.connect("gatekeeper")
    place = CommandContext(house.folder, house.folder, house.server.address(PROVISIONER), house.folder / "key")
    with pytest.raises(UnavailableError) as unknown:
        await apply_topology(place, (DEFAULT_POOL,), None, ("payments",))
    assert unknown.value.reason == "identities_unconfirmed"
    added = await house.command("add", "publisher-payments")
    assert (added["confirmed"], added["publishers"]) == (True, {"payments": "unanswered"})
    await apply_topology(place, (DEFAULT_POOL,), None, ("payments",))
    payments = await house.connect("publisher-payments")
    await payments.publish("gw.intake.contract.payments", b"{}", schema="s", message_id="m")
    uri = await payments.put_artifact(b"what it brings")
    assert await gatekeeper.get_upload(uri, "payments") == b"what it brings"
    assert [message.data async for message in gatekeeper.unsettled("gw.intake.*.payments")] == [b"{}"]
    assert upload_stream("payments").name == "UPLOADS_payments"
    assert house.lost == {}
    for bus in (payments, gatekeeper):
        await bus.close()


async def test_a_publisher_that_the_gatekeeper_does_not_list_is_reported_as_unknown(house: House) -> None:
    listed = Publishers(version="1", publishers=(make_publisher("payments"),))

    async def answer(message: Message) -> Reply:
        try:
            sender(message, listed)
        except GatewrightError as error:
            return reply(error_document(error))
        return reply(RunList(runs=(), more=False))

    gatekeeper = await house.connect("gatekeeper")
    await gatekeeper.serve("gw-gatekeeper", {f"{RUNS_SUBJECT}.*": answer})
    added = await house.command("add", "publisher-payments", "publisher-unlisted")
    assert (added["confirmed"], added["publishers"]) == (True, {"payments": "known", "unlisted": "unknown"})
    assert (await house.command("check"))["publishers"]["unlisted"] == "unknown"
    await gatekeeper.close()


async def test_server_limits_of_an_identity_apply_while_it_runs(house: House) -> None:
    named = ("publisher", "--connections", "2", "--payload", "1048576", "--subscriptions", "50")
    assert (await house.command("limit", *named))["confirmed"] is True
    listed = {each["identity"]: each["limits"] for each in await house.command("list")}
    assert listed["publisher"] == {"connections": 2, "subscriptions": 50, "payload": 1 << 20}
    assert listed["watcher"] == {"connections": 64, "subscriptions": 500, "payload": 8 << 20}
    bounded = [await house.connect("publisher") for _ in range(2)]
    with pytest.raises(BusError):
        await house.connect("publisher")
    others = [await house.connect("watcher") for _ in range(3)]
    await bounded[0].publish("gw.intake.contract", bytes(900_000), schema="s", message_id="fits")
    with pytest.raises(BusError):
        await bounded[1].publish("gw.intake.contract", bytes(1_100_000), schema="s", message_id="too large")
    for bus in (*bounded, *others):
        await bus.close()
    await house.command("limit", "publisher", "--shipped")
    freed = [await house.connect("publisher") for _ in range(3)]
    await freed[0].publish("gw.intake.contract", bytes(1_100_000), schema="s", message_id="fits again")
    for bus in freed:
        await bus.close()


async def test_an_unworkable_limit_is_refused_and_changes_nothing(house: House) -> None:
    for words in (
        ("publisher", "--connections", "0"),
        ("publisher", "--payload", "1000"),
        ("publisher", "--payload", "9000000"),
        ("publisher",),
        ("publisher", "--shipped", "--connections", "1"),
        ("gatekeeper", "--connections", "1"),
        ("publisher-stranger", "--connections", "1"),
    ):
        await house.command("limit", *words, code=2)
    assert not (house.keys / identity_limits.FILE).exists()
    (house.keys / identity_limits.FILE).write_text('{"publisher": {"conections": 1}}')
    await house.command("list", code=3)


def test_claims_of_operator_mode_carry_the_configured_limits(tmp_path: Path) -> None:
    identities.make(tmp_path)
    identity_changes.limit(tmp_path, "publisher", identity_limits.IdentityLimits(connections=2, payload=1 << 20))
    token = make_jwt(tmp_path, (DEFAULT_POOL,), 1).accounts["publisher"].split(".")[1]
    limits = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))["nats"]["limits"]
    assert (limits["conn"], limits["subs"], limits["payload"]) == (2, 500, 1 << 20)


async def test_a_key_is_replaced_without_downtime_and_then_refused(house: House) -> None:
    before = await house.connect("gatekeeper")
    old = house.folder / "gatekeeper.nk"
    old.write_bytes(seed_file(house.keys, "gatekeeper").read_bytes())
    old.chmod(0o600)
    token = before.keyed_hashes("task:1")[0]
    await house.command("rotate", "gatekeeper")
    assert house.lost == {}
    during = await house.connect("gatekeeper")
    # The one that was not started anew knows no other token.
    assert during.keyed_hashes("task:1")[0] == token
    await before.publish("gw.run.run-1", b"{}", schema="s", message_id="1", expected_subject_sequence=0)
    listed = {each["identity"]: each for each in await house.command("list")}
    assert listed["gatekeeper"]["earlier"]
    assert not listed["worker"]["earlier"]
    await house.command("rotate", "gatekeeper", code=2)
    await house.command("rotate", "gatekeeper", "--finish")
    await house.wait_for_loss("gatekeeper")
    after = await house.connect("gatekeeper")
    assert after.keyed_hashes("task:1")[0] != token
    assert token in after.keyed_hashes("task:1")
    assert after.keyed_hashes("task:1")[0] in during.keyed_hashes("task:1")
    assert await house.refused(old)
    for bus in (before, during, after):
        await bus.close()


async def test_tasks_of_before_many_rotations_can_still_be_answered(house: House) -> None:
    first = await house.connect("gatekeeper")
    tokens = [first.keyed_hashes("task:1")[0]]
    await first.close()
    for _ in range(3):
        await house.command("rotate", "gatekeeper")
        between = await house.connect("gatekeeper")
        assert between.keyed_hashes("task:1")[0] == tokens[-1]
        await house.command("rotate", "gatekeeper", "--finish")
        # Without a start of its own, it gives tokens out under the key that stays.
        tokens.append(between.keyed_hashes("task:1")[0])
        assert len(set(tokens)) == len(tokens)
        assert set(tokens) <= set(between.keyed_hashes("task:1"))
        await between.close()
    last = await house.connect("gatekeeper")
    assert last.keyed_hashes("task:1")[0] == tokens[-1]
    assert set(tokens) <= set(last.keyed_hashes("task:1"))
    await house.command("revoke", "gatekeeper")
    await house.wait_for_loss("gatekeeper")
    after = await house.connect("gatekeeper")
    assert not set(tokens) & set(after.keyed_hashes("task:1"))
    await after.close()
    await last.close()


async def test_a_rotation_that_was_cut_short_is_completed_by_the_same_command(house: House) -> None:
    for words in (("rotate", "gatekeeper"), ("rotate", "gatekeeper", "--finish")):
        public = seed_file(house.keys, "gatekeeper").with_suffix(identities.PUBLIC_SUFFIX)
        before = public.read_text()
        if words[-1] == "--finish":
            identity_changes.finish(house.keys, "gatekeeper")
        else:
            identity_changes.rotate(house.keys, "gatekeeper")
        public.write_text(before)  # the command ended before it wrote the public half
        assert (await house.command(*words))["confirmed"] is True
        assert public.read_text() != before
        gatekeeper = await house.connect("gatekeeper")
        await gatekeeper.close()


def test_a_seed_file_keeps_a_bounded_number_of_earlier_seeds(tmp_path: Path) -> None:
    identities.make(tmp_path, ("worker",))
    for _ in range(identities.MOST_EARLIER + 2):
        identity_changes.rotate(tmp_path, "worker")
        identity_changes.finish(tmp_path, "worker")
    assert len(identities.load(seed_file(tmp_path, "worker")).earlier) == identities.MOST_EARLIER


async def test_a_server_that_missed_the_change_fails_the_check(house: House) -> None:
    told = await house.command("revoke", "worker-2", tell=False)
    assert told == {**told, "signalled": False, "confirmed": False}
    await house.command("check", code=3)
    os.kill(house.server.pid, 1)
    assert (await house.command("check"))["confirmed"] is True


async def test_what_every_system_has_gets_a_new_key_when_it_is_revoked(house: House) -> None:
    revoked_key = identities.public_keys(house.keys)["publisher"]
    old = await house.connect("publisher")
    await house.command("revoke", "publisher")
    await house.wait_for_loss("publisher")
    assert identities.public_keys(house.keys)["publisher"] != revoked_key
    new = await house.connect("publisher")
    await new.publish("gw.intake.contract", b"{}", schema="s", message_id="m")
    for bus in (old, new):
        await bus.close()


async def test_a_configuration_of_another_hand_is_left_alone_and_nothing_is_changed(house: House) -> None:
    before = identities.public_keys(house.keys)
    file = house.folder / "nats" / CONFIG_FILE
    text = file.read_text()
    file.write_text("listen: 127.0.0.1:4222\naccounts: {}\n")
    await house.command("revoke", "worker-2", code=3)
    await house.command("revoke", "worker-9", code=3)
    assert identities.public_keys(house.keys) == before
    file.write_text(text + "# of another hand\n")
    await house.command("revoke", "stranger", code=2)
    await house.command("revoke", "worker-9", code=2)
    await house.command("revoke", "worker-2")
    assert file.read_text().endswith("}\n# of another hand\n")


def test_a_seed_file_with_a_meaningless_second_line_is_refused(tmp_path: Path) -> None:
    identities.make(tmp_path)
    seed = identities.load(seed_file(tmp_path, "worker")).seed
    for second in ("previous", f"other {seed}", seed):
        path = tmp_path / "worker.nk"
        path.write_text(f"{seed}\n{second}\n")
        with pytest.raises(ConfigurationError, match="holds no seed"):
            identities.load(path)
