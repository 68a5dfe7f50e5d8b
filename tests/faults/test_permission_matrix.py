"""Every identity against every subject of the bus, tried on the real server: what is stored or heard is what the table says.

The counts are printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from gatewright.bus import identities
from gatewright.bus import topology as t
from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.permissions import Access, access_of
from gatewright.bus.subjects import matches
from gatewright.errors import ArtifactError, BusError, ConflictError
from tests.faults.bus_parties import EVERYBODY, PUBLISHERS, SIBLING, STREAM_NAMES, Bus, Mode, arrived, open_bus
from tests.waiting import PATIENCE


def task_subject() -> str:
    return next(queue.subject for queue in t.consumers() if queue.owner == "worker")


def subjects() -> tuple[str, ...]:
    """One of every kind of subject that there is."""
    roles = [make(role) for role in t.TASK_ROLES for make in (t.result_subject, t.dead_subject)]
    outside = (t.REQUEST_SUBJECT, t.CONTRACT_SUBJECT, t.ABORT_SUBJECT)
    return (
        *(queue.subject for queue in t.consumers() if queue.stream == "TASKS"),
        *roles,
        t.dead_subject("gatekeeper"),
        *outside,
        *(f"{subject}.ci" for subject in outside),
        *(f"{subject}.other" for subject in outside),
        *(f"{subject}.operator" for subject in outside),
        *(f"{subject}.ci.more" for subject in outside),
        t.run_subject("run-0123456789"),
        t.queue_subject("0123456789abcdef0123"),
        *(t.artifact_subject(identity, "0" * 64, 0) for identity in EVERYBODY),
        t.artifact_subject("publisher-other", "0" * 64, 0),
        *(t.upload_subject(publisher, "0" * 64, 0) for publisher in (*PUBLISHERS, "other", "operator")),
        f"$KV.{t.LOCK_BUCKET}.forged",
    )


#: Where agents' questions go, and where they are answered.
ASKED = tuple(f"gw.{what}.{whose}" for what in ("question", "answer") for whose in ("default", "ci", "operator", "*"))


class Report(Protocol):
    def __call__(self, what: str, *, tried: int, allowed: int, wrong: int) -> None: ...


def is_kept(subject: str) -> bool:
    """Whether there is a stream for it: a publisher that the server does not know has none."""
    return not (subject.startswith("gw.intake.") and subject.endswith(".other"))


def may_publish(access: Access, subject: str) -> bool:
    """Whether the table lets this identity publish under ``subject``."""
    return any(matches(pattern, subject) for pattern in access.sends())


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Print the counts where they can be seen."""

    def show(what: str, *, tried: int, allowed: int, wrong: int) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{what}: {tried} tried, {allowed} allowed, {tried - allowed} refused, {wrong} wrong ")

    return show


@pytest.fixture(params=["configuration", pytest.param("operator", marks=pytest.mark.long)])
async def bus(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    """A server whose configuration holds the accounts, and one that was given them by an operator: the same holds of both."""
    mode: Mode = request.param
    async with open_bus(tmp_path, mode) as opened:
        yield opened


async def test_who_may_publish_is_exactly_what_the_table_lists(bus: Bus, report: Report) -> None:
    """A refusal has two signs: the server reports an error, and nothing is stored."""
    pairs = [(party, subject) for party in bus.parties.values() for subject in subjects()]
    for number, (party, subject) in enumerate(pairs):  # a number: an observer may send no more than a few bytes
        await party.client.publish(subject, b"%d" % number)
    stored = await bus.stored()
    found = {(party.access.identity, subject) for number, (party, subject) in enumerate(pairs) if str(number) in stored}
    wanted = {
        (party.access.identity, subject) for party, subject in pairs if may_publish(party.access, subject) and is_kept(subject)
    }
    silent = [
        (party.access.identity, subject)
        for party, subject in pairs
        if not may_publish(party.access, subject) and not party.was_refused("publish", subject)
    ]
    report("publish", tried=len(pairs), allowed=len(found), wrong=len(found ^ wanted) + len(silent))
    assert found ^ wanted == set()
    assert silent == []
    assert len(found) > len(EVERYBODY)
    for ledger in (t.run_subject("run-0123456789"), t.queue_subject("0123456789abcdef0123")):
        assert {name for name, subject in found if subject == ledger} == {"gatekeeper"}


async def test_who_may_send_unstored_messages_matches_the_table(bus: Bus, report: Report) -> None:
    said = (
        *(subject for subject in ASKED if not subject.endswith("*")),
        *(t.live_subject(role) for role in t.ROLES),
        *(t.claim_subject(role) for role in t.TASK_ROLES),
        *(t.CANCEL_SUBJECT, t.WATCH_SUBJECT.replace("*", "run-0123456789")),
        *t.APPROVER_SUBJECTS,
        t.MERGE_ACT_SUBJECT,
        *(
            f"{plain}{whose}"
            for plain in (t.SUBMIT_SUBJECT, t.ENVIRONMENT_SUBJECT, *t.QUESTION_SUBJECTS)
            for whose in ("", ".ci", ".operator", ".other")
        ),
        *(f"_INBOX_{identity}.x" for identity in EVERYBODY),
    )
    pairs = [(party, subject) for party in bus.parties.values() for subject in said]
    for party, subject in pairs:
        await party.client.publish(subject, b"said")
    await bus.settle()
    found = {(party.access.identity, subject) for party, subject in pairs if not party.was_refused("publish", subject)}
    wanted = {(party.access.identity, subject) for party, subject in pairs if may_publish(party.access, subject)}
    report("said", tried=len(pairs), allowed=len(found), wrong=len(found ^ wanted))
    assert found ^ wanted == set()
    assert {name for name, subject in found if subject.startswith("gw.live.")} == {"worker", SIBLING}
    claimed = {(name, subject) for name, subject in found if subject.startswith("gw.claim.")}
    assert claimed == {(name, t.claim_subject(name)) for name in t.TASK_ROLES} | {(SIBLING, t.claim_subject("worker"))}
    assert {name for name, subject in found if subject in t.APPROVER_SUBJECTS} == {"approver"}
    assert {name for name, subject in found if subject == t.MERGE_ACT_SUBJECT} == {"operator"}


async def test_who_may_subscribe_is_exactly_what_the_table_lists(bus: Bus, report: Report) -> None:
    heard = (
        t.CANCEL_SUBJECT,
        "gw.watch.run-0123456789",
        *(t.SUBMIT_SUBJECT, t.ENVIRONMENT_SUBJECT, f"{t.ENVIRONMENT_SUBJECT}.*", f"{t.ENVIRONMENT_SUBJECT}.ci"),
        t.STATUS_SUBJECT,
        *t.APPROVER_SUBJECTS,
        t.CLAIM_SUBJECT,
        t.claim_subject("worker"),
        ">",
        "_INBOX_gatekeeper.x",
        *ASKED,
    )
    names = ("", *(f".gw-{role}{ending}" for role in t.ROLES for ending in ("", ".id")))
    served = [f"$SRV.{verb}{name}" for verb in ("PING", "INFO", "STATS") for name in names]
    pairs = [(party, subject) for party in bus.parties.values() for subject in (*subjects(), *heard, *served)]
    for party, subject in pairs:
        await party.client.subscribe(subject)
    await bus.settle()
    found = {(party.access.identity, subject) for party, subject in pairs if not party.was_refused("subscription", subject)}
    wanted = {
        (party.access.identity, subject)
        for party, subject in pairs
        if any(matches(pattern, subject) for pattern in party.access.receives())
    }
    report("subscribe", tried=len(pairs), allowed=len(found), wrong=len(found ^ wanted))
    assert found ^ wanted == set()


#: Calls of JetStream with which one could read, change or destroy what others rely on.
CALLS = tuple(
    call
    for stream in (*STREAM_NAMES, "UPLOADS_other", "INTAKE_other")
    for call in (
        *(
            f"STREAM.{verb}.{stream}"
            for verb in ("INFO", "CREATE", "UPDATE", "DELETE", "PURGE", "SNAPSHOT", "MSG.GET", "MSG.DELETE")
        ),
        f"STREAM.PEER.REMOVE.{stream}",
        f"CONSUMER.CREATE.{stream}.mine",
        f"CONSUMER.DURABLE.CREATE.{stream}.mine",
        f"CONSUMER.LIST.{stream}",
        f"DIRECT.GET.{stream}",
    )
) + tuple(
    f"CONSUMER.{verb}.{queue.stream}.{queue.durable}"
    for queue in t.consumers(publishers=(*PUBLISHERS, "other"))
    for verb in ("MSG.NEXT", "INFO", "DELETE", "PAUSE")
)


@pytest.mark.parametrize("prefix", ["$JS.API", "gw.js"])
async def test_the_calls_of_jetstream_are_refused_beyond_the_table(bus: Bus, prefix: str, report: Report) -> None:
    pairs = [(party, call) for party in bus.parties.values() for call in CALLS]
    for party, call in pairs:
        await party.client.publish(f"{prefix}.{call}", b'{"no": "such body"}')
    await bus.settle()
    # In the account of the bus, the server complains of what it made of the subject.
    found = {
        (party.access.identity, call)
        for party, call in pairs
        if not any(party.was_refused("publish", f"{name}.{call}") for name in (prefix, "$JS.API"))
    }
    wanted = {
        (party.access.identity, call)
        for party, call in pairs
        if any(matches(pattern, call) for pattern in party.access.calls()) and (not party.access.guest or prefix == "gw.js")
    }
    report(f"calls as {prefix}", tried=len(pairs), allowed=len(found), wrong=len(found ^ wanted))
    assert found ^ wanted == set()


def test_only_the_provisioner_may_remove_old_ledger_messages() -> None:
    for identity in EVERYBODY:
        for verb in ("DELETE", "PURGE", "MSG.DELETE"):
            may = any(matches(pattern, f"STREAM.{verb}.RUNS") for pattern in access_of(identity).calls())
            assert may == (identity == "provisioner" and verb == "PURGE")


def test_only_the_provisioner_may_take_artifacts_and_dead_letters_away() -> None:
    for identity in EVERYBODY:
        calls = access_of(identity).calls()
        for stream, allowed in (("ARTIFACTS", "PURGE"), ("DEAD", "MSG.DELETE")):
            for verb in ("DELETE", "PURGE", "MSG.DELETE"):
                may = any(matches(pattern, f"STREAM.{verb}.{stream}") for pattern in calls)
                assert may == (identity == "provisioner" and verb == allowed)


def test_only_the_provisioner_may_copy_a_stream_or_bring_one_back() -> None:
    for identity in EVERYBODY:
        for verb in ("SNAPSHOT", "RESTORE"):
            may = any(matches(pattern, f"STREAM.{verb}.RUNS") for pattern in access_of(identity).calls())
            assert may == (identity == "provisioner")


async def test_no_server_reply_can_reach_a_forbidden_subject(bus: Bus, report: Report) -> None:
    """Who may ask the server anything names the place of the answer: it must not be the ledger, nor anybody's queue."""
    targets = ("gw.run.run-0123456789", task_subject(), "gw.result.pm", "gw.intake.abort", "gw.dead.pm")
    tried = 0
    for party in bus.parties.values():
        if not party.access.guest:
            continue
        asked = [*party.access.publish, *(f"gw.js.{call}" for call in party.access.calls())]
        for subject in [subject.replace(">", "x.0") for subject in asked]:
            for target in targets:
                if not may_publish(party.access, target):
                    tried += 1
                    await party.client.publish(subject, b'{"seq": 1}', reply=target)
    stored = [text for text in await bus.stored() if text != '{"seq": 1}']
    report("answers led astray", tried=tried, allowed=len(stored), wrong=len(stored))
    assert stored == []


async def test_only_the_gatekeepers_credential_can_write_the_ledger(bus: Bus) -> None:
    async def forge(identity: str) -> None:
        forger = await JetStreamBus.connect(bus.server.address(identity), name="forger", patience=3.0)
        with pytest.raises((BusError, ConflictError)):
            await forger.publish("gw.run.run-0123456789", b"{}", schema="transition.v1", message_id="forged")
        await forger.close()

    # At once: each waits for an answer that does not come.
    await asyncio.gather(*(forge(identity) for identity in EVERYBODY if identity != "gatekeeper"))
    assert await bus.stored() == []


async def test_a_client_without_a_credential_or_with_a_stranger_s_is_refused(bus: Bus, tmp_path: Path) -> None:
    identities.make(tmp_path / "strange")
    strangers = (
        BusAddress(bus.server.url),
        BusAddress(bus.server.url.replace("//", "//gatewright:guess@")),
        BusAddress(bus.server.url, tmp_path / "strange" / "gatekeeper.nk"),
    )
    for stranger in strangers:
        with pytest.raises(BusError, match="refused the credential"):
            await JetStreamBus.connect(stranger, name="stranger")


async def test_a_role_cannot_have_another_one_s_message_taken_for_a_repetition(bus: Bus) -> None:
    """All roles share the window of message ids of RESULTS: an id that was guessed would swallow the honest answer."""
    hostile = await JetStreamBus.connect(bus.server.address("pm"), name="pm")
    honest = await JetStreamBus.connect(bus.server.address("worker"), name="worker")
    message_id = "run-1:plan.w01:task_result.v1"
    await hostile.publish("gw.result.pm", b"first", schema="error.v1", message_id=message_id)
    answers = [
        await honest.publish("gw.result.worker", b"honest", schema="task_result.v1", message_id=message_id) for _ in range(2)
    ]
    assert [answer.duplicate for answer in answers] == [False, True]
    await hostile.close()
    await honest.close()


async def test_a_watcher_reads_and_follows_the_ledger_without_a_gap(bus: Bus) -> None:
    gatekeeper = await JetStreamBus.connect(bus.server.address("gatekeeper"), name="gatekeeper")
    watcher = await JetStreamBus.connect(bus.server.address("watcher"), name="watcher")
    for number in range(5):
        await gatekeeper.publish("gw.run.run-1", b"%d" % number, schema="transition.v1", message_id=f"r:{number}")
    assert [message.data async for message in watcher.replay("gw.run.*")] == [b"0", b"1", b"2", b"3", b"4"]

    async def watch() -> list[bytes]:
        found = []
        async with contextlib.aclosing(watcher.replay("gw.run.run-1", follow=True)) as messages:
            async for message in messages:
                found.append(message.data)
                if len(found) == 105:
                    return found
        return found

    watching = asyncio.create_task(watch())
    for number in range(5, 105):
        await gatekeeper.publish("gw.run.run-1", b"%d" % number, schema="transition.v1", message_id=f"r:{number}")
    assert await asyncio.wait_for(watching, PATIENCE) == [b"%d" % number for number in range(105)]
    await gatekeeper.close()
    await watcher.close()


async def test_only_the_gatekeeper_can_send_cancellations_to_roles(bus: Bus) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    await bus.parties["worker"].client.subscribe(t.CANCEL_SUBJECT, cb=hear)
    await arrived(bus.parties["worker"].client)
    for identity, party in bus.parties.items():
        await party.client.publish(t.CANCEL_SUBJECT, identity.encode())
        await arrived(party.client)
    await asyncio.sleep(0.2)
    assert heard == [b"gatekeeper"]


async def test_a_publisher_reads_its_own_artifacts_and_no_others(bus: Bus) -> None:
    acme = await JetStreamBus.connect(bus.server.address("publisher-ci"), name="ci", patience=0.5)
    other = await JetStreamBus.connect(bus.server.address("publisher"), name="other", patience=0.5)
    small, large = b"mine", b"x" * 1_300_000
    for data in (small, large):
        uri = await acme.put_artifact(data)
        assert await acme.put_artifact(data) == uri
        assert await acme.get_artifact(uri) == data
        with pytest.raises(ArtifactError) as caught:
            await other.get_artifact(uri)
        assert caught.value.reason == "artifact_missing"
    party = bus.parties["publisher"]
    digest = uri.rpartition(":")[2]
    for call, body in (
        (f"DIRECT.GET.UPLOADS_ci.{t.upload_subject('ci', digest, 0)}", b""),
        (f"DIRECT.GET.UPLOADS_default.{t.upload_subject('ci', digest, 0)}", b""),
        ("DIRECT.GET.UPLOADS_ci", b'{"seq": 1}'),
        ("STREAM.MSG.GET.UPLOADS_ci", b'{"seq": 1}'),
        ("STREAM.MSG.GET.UPLOADS_default", b'{"seq": 1}'),
        ("DIRECT.GET.ARTIFACTS", b'{"seq": 1}'),
        ("STREAM.MSG.GET.ARTIFACTS", b'{"seq": 1}'),
        ("STREAM.MSG.GET.RUNS", b'{"seq": 1}'),
        (f"DIRECT.GET.UPLOADS_ci.{t.upload_subject('*', digest, 0)}", b""),
    ):
        for prefix in ("gw.js", "$JS.API"):
            with pytest.raises((TimeoutError, NoRespondersError, NatsTimeoutError)):
                await party.client.request(f"{prefix}.{call}", body, timeout=0.3)
    for opened in (acme, other):
        await opened.close()


async def test_processes_of_one_role_do_not_see_what_the_others_are_given(bus: Bus) -> None:
    queue = t.task_consumer("worker")
    gatekeeper = await JetStreamBus.connect(bus.server.address("gatekeeper"), name="gatekeeper")
    one = await JetStreamBus.connect(bus.server.address("worker"), name="worker")
    spied: list[bytes] = []

    async def spy(message: Msg) -> None:
        spied.append(message.data)

    sibling = bus.parties[SIBLING]
    for subject in ("_INBOX_worker.>", "_INBOX_worker.*", f"_INBOX_{SIBLING}.>", ">", "_R_.>", "$JS.ACK.>"):
        await sibling.client.subscribe(subject, cb=spy)
    await arrived(sibling.client)
    subscription = await one.consume(queue)
    await gatekeeper.publish(queue.subject, b"for one alone", schema="s", message_id="t1")
    delivery = await subscription.next(10)
    assert delivery is not None
    assert delivery.message.data == b"for one alone"
    await delivery.ack()
    await arrived(sibling.client)
    assert spied == []
    assert sibling.was_refused("subscription", "_INBOX_worker.>")
    await subscription.close()
    other = await JetStreamBus.connect(bus.server.address(SIBLING), name="worker")
    mine = await other.consume(queue)
    await gatekeeper.publish(queue.subject, b"for the other", schema="s", message_id="t2")
    taken = await mine.next(10)
    assert taken is not None
    assert taken.message.data == b"for the other"
    await taken.ack()
    for opened in (mine, other, one, gatekeeper):
        await opened.close()


async def test_every_process_of_a_role_is_found_by_a_ping(bus: Bus) -> None:
    both = [await JetStreamBus.connect(bus.server.address(identity), name="worker") for identity in ("worker", SIBLING)]
    for connected in both:
        await connected.serve("gw-worker", {})
    found: set[bytes] = set()
    answered = asyncio.Event()

    async def hear(message: Msg) -> None:
        found.add(message.data)
        if len(found) == 2:
            answered.set()

    operator = bus.parties["operator"].client
    await operator.subscribe("_INBOX_operator.pings", cb=hear)
    await operator.publish("$SRV.PING.gw-worker", b"", reply="_INBOX_operator.pings")
    await asyncio.wait_for(answered.wait(), PATIENCE)
    assert len(found) == len(both)
    for connected in both:
        await connected.close()
