"""Letting sealed runs expire from the ledger of a real NATS server: which go, which stay, and cut short at every step."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.app.cli.ledger_expiry import expiry_round
from gatewright.app.replay.rebuild import rebuild
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.bus.jetstream.removal import entries_by_run, remove_entries
from gatewright.bus.topology import run_subject
from gatewright.client import Client
from gatewright.errors import BusError, ConfigurationError, GatewrightError, MalformedError
from gatewright.evidence.signing import keys
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.store.objects import archive_name, pointer_name
from gatewright.evidence.store.pointer import read_pointer
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.expiry import expire
from gatewright.ledger.store import Ledger
from tests.attacks.real_gate import default_scanner
from tests.evidence.store.s3_server import Reply, S3Server
from tests.evidence.tampering import put
from tests.retention.conftest import NOW, Installation


async def test_old_sealed_runs_go_and_all_others_stay(installation: Installation) -> None:
    old, young, held = [await installation.seal(number, days_old=days) for number, days in ((1, 100), (2, 3), (3, 100))]
    forged, lost = await installation.seal(4), await installation.seal(5, bundled=False)
    installation.hold(held)
    put(installation.house.root / forged / "events.jsonl", b"{}\n")
    before = await entries_by_run(installation.provisioner)
    reasons = await installation.reasons()
    assert await entries_by_run(installation.provisioner) == before
    assert reasons[old] == ""
    assert "3.0 days old" in reasons[young]
    assert "a dispute" in reasons[held]
    assert "does not verify" in reasons[forged]
    assert lost not in reasons
    done = await installation.round()
    assert {run_id: (each.code, each.removed) for run_id, each in done.items()} == {old: ("", before[old])}
    assert await entries_by_run(installation.provisioner) == {**before, old: 1}
    assert await installation.round() == {}


async def test_what_a_store_holds_lets_runs_expire_and_all_others_stay(in_store: Installation, tmp_path: Path) -> None:
    old, young, held = [await in_store.seal(number, days_old=days) for number, days in ((1, 100), (2, 3), (3, 100))]
    forged, lost = await in_store.seal(4), await in_store.seal(5, bundled=False)
    in_store.hold(held)
    assert in_store.store is not None
    server, store = in_store.store.server, in_store.store.open()
    pointer = read_pointer(store.read(pointer_name(forged)) or b"", forged)
    server.overwrite(in_store.store.key(archive_name(pointer.manifest_sha256)), b"something else")
    before, reasons = await entries_by_run(in_store.provisioner), await in_store.reasons()
    assert reasons[old] == ""
    assert "3.0 days old" in reasons[young]
    assert "a dispute" in reasons[held]
    assert "stored_bundle" in reasons[forged]
    assert lost not in reasons
    done = await in_store.round()
    assert {run_id: (each.code, each.removed) for run_id, each in done.items()} == {old: ("", before[old])}
    assert await entries_by_run(in_store.provisioner) == {**before, old: 1}
    told = await Client(in_store.bus).get(old)
    assert told.sealed is not None
    assert told.sealed.location == f"{in_store.store.address}/{old}"
    assert verify(fetch(store, old, tmp_path / "in"), [in_store.house.signer.public]).ok


async def test_a_hold_in_the_store_that_comes_after_the_plan_is_kept(in_store: Installation) -> None:
    run_id, expiry = await in_store.seal(1), in_store.expiry()
    plan = await expiry.plan()
    in_store.hold(run_id)
    (left,) = await expiry.carry_out(plan)
    assert left.code == "bundle_changed"
    assert (await in_store.kinds(run_id))[-1] == "bundle_sealed"


async def test_a_store_that_fails_in_between_lets_nothing_expire(in_store: Installation) -> None:
    run_id, expiry = await in_store.seal(1), in_store.expiry()
    plan = await expiry.plan()
    assert in_store.store is not None
    in_store.store.server.hook = lambda *_: Reply(403)
    (left,) = await expiry.carry_out(plan)
    assert left.code == "store_denied"
    assert (await in_store.kinds(run_id))[-1] == "bundle_sealed"
    in_store.store.server.hook = None
    assert (await in_store.round())[run_id].code == ""


async def test_the_bus_is_served_while_a_slow_store_is_asked(in_store: Installation) -> None:
    """Or the server would take both connections for dead, in an installation with many bundles."""
    run_id, loop = await in_store.seal(1), asyncio.get_running_loop()
    served: dict[tuple[str, str], bool] = {}

    def hook(method: str, key: str, _: S3Server) -> Reply | None:
        turn = threading.Event()
        loop.call_soon_threadsafe(turn.set)
        served[method, key] = all(served.values()) and turn.wait(20)
        return None

    assert in_store.store is not None
    in_store.store.server.hook = hook
    assert (await in_store.round())[run_id].code == ""
    in_store.store.server.hook = None
    assert served
    assert all(served.values()), served


async def test_the_tombstone_describes_the_run_and_its_bundle_stays(installation: Installation) -> None:
    run_id = await installation.seal(1)
    before = await Client(installation.bus).get(run_id)
    await installation.round()
    after = await Client(installation.bus).get(run_id)
    assert await installation.kinds(run_id) == ["run_expired"]
    told = [(run.status, run.sealed, run.created_at, run.finished_at, run.publisher, run.landed) for run in (before, after)]
    assert told[0] == told[1]
    assert after.expired is not None
    assert (after.expired.by, after.ended) == ("keeper", True)
    assert installation.house.actions()[run_id] == "prune"  # it verifies: its bundle is as it was
    with pytest.raises(MalformedError) as refused:
        await rebuild(installation.bus, run_id, installation.house.home / "again", installation.house.signer, default_scanner())
    assert refused.value.reason == "run_expired"
    assert before.sealed is not None
    assert before.sealed.location in refused.value.message


async def test_a_round_interrupted_after_the_last_transition_is_completed_later(installation: Installation) -> None:
    run_id = await installation.seal(1)
    ledger = Ledger(installation.bus)
    position = await ledger.load(run_id)
    assert position.run is not None
    await ledger.append(position, expire(position.run, NOW, "keeper", "old"))  # and no further
    assert (await installation.kinds(run_id))[-2:] == ["bundle_sealed", "run_expired"]
    whole = await rebuild(
        installation.bus, run_id, installation.house.home / "again", installation.house.signer, default_scanner()
    )
    assert position.run.sealed is not None
    assert whole.manifest_sha256 == position.run.sealed.manifest_sha256
    done = await installation.round()
    assert done[run_id].removed == len(position.transitions)
    assert await installation.kinds(run_id) == ["run_expired"]


async def test_two_rounds_at_once_write_one_history(installation: Installation) -> None:
    runs = [await installation.seal(number) for number in range(1, 6)]
    first, second = installation.expiry(), installation.expiry()
    plans = await asyncio.gather(first.plan(), second.plan())
    both = await asyncio.gather(first.carry_out(plans[0]), second.carry_out(plans[1]))
    for run_id in runs:
        codes = [done.code for each in both for done in each if done.item.run_id == run_id]
        assert "" in codes
        assert await installation.kinds(run_id) == ["run_expired"]
    assert await entries_by_run(installation.provisioner) == dict.fromkeys(runs, 1)


async def test_a_hold_that_comes_after_the_plan_is_kept(installation: Installation) -> None:
    run_id, expiry = await installation.seal(1), installation.expiry()
    plan = await expiry.plan()
    installation.hold(run_id)
    (left,) = await expiry.carry_out(plan)
    assert left.code == "bundle_changed"
    assert (await installation.kinds(run_id))[-1] == "bundle_sealed"


async def test_a_bundle_that_the_ledger_does_not_name_lets_nothing_expire(installation: Installation) -> None:
    run_id, expiry = await installation.seal(1), installation.expiry()
    (item,) = await expiry.plan()
    (left,) = await expiry.carry_out([replace(item, manifest_sha256="0" * 64)])
    assert (left.code, left.item.run_id) == ("bundle_changed", run_id)
    assert (await installation.kinds(run_id))[-1] == "bundle_sealed"


async def test_a_foreign_message_after_the_last_transition_does_not_take_its_place(installation: Installation) -> None:
    run_id = await installation.seal(1)
    await installation.bus.publish(run_subject(run_id), b'{"foreign": 1}', schema="error.v1", message_id="foreign-1")
    await installation.round()
    await installation.bus.publish(run_subject(run_id), b'{"foreign": 2}', schema="error.v1", message_id="foreign-2")
    await installation.round()
    assert await installation.kinds(run_id) == ["run_expired"]


async def test_nothing_is_taken_out_where_no_place_is_named(installation: Installation) -> None:
    run_id = await installation.seal(1)
    with pytest.raises(BusError):
        await remove_entries(installation.provisioner, run_id, 0)
    assert (await installation.kinds(run_id))[-1] == "bundle_sealed"


async def test_a_follower_of_an_expiring_run_receives_the_expiry(installation: Installation) -> None:
    run_id = await installation.seal(1)
    events = Client(installation.bus).follow(run_id)
    told = [(await anext(events)).event_type]
    await installation.round()
    told += [event.event_type async for event in events]
    assert told[-1] in {"run_expired", "bundle_sealed"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "nothing_expires"),
        ('{"version": "1", "ledger": {"days": 6}}', "configuration_invalid"),
        ('{"version": "1", "ledger": {"days": 30}, "artefacts": 1}', "configuration_invalid"),
    ],
)
def test_without_a_policy_that_can_be_read_nothing_expires(tmp_path: Path, text: str | None, code: str) -> None:
    if text is not None:
        (tmp_path / "retention.json").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_expiry(tmp_path)
    assert isinstance(refused.value, GatewrightError)
    assert refused.value.reason == code


def test_the_policy_decides_how_long_runs_stay(tmp_path: Path) -> None:
    (tmp_path / "retention.json").write_text('{"version": "1", "ledger": {"days": 30}}')
    ledger = load_expiry(tmp_path).of_bus().ledger
    assert ledger is not None
    assert ledger.days == 30


def told_where(installation: Installation, folder: Path, private_key: keys.PrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a command: policies and key lie in ``folder``."""
    (folder / "retention.json").write_text('{"version": "1", "ledger": {"days": 30}}')
    key = folder / "gatekeeper.pem"
    key.write_bytes(keys.private_pem(private_key))
    key.chmod(0o600)
    keys.load_or_create(key)
    told = {"HOME": installation.house.home, "NATS_URL": installation.address.url, "POLICIES": folder, "KEY": key}
    for name, value in told.items():
        monkeypatch.setenv(f"GATEWRIGHT_{name}", str(value))


@pytest.mark.parametrize("kept", ["installation", "in_store"])
async def test_the_command_lets_runs_expire_with_both_identities_and_not_with_one(
    installation: Installation,
    tmp_path: Path,
    private_key: keys.PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    kept: str,
) -> None:
    request.getfixturevalue(kept)
    run_id = await installation.seal(1, days_old=3000)
    monkeypatch.setenv("GATEWRIGHT_BUNDLE_STORE", "")  # as a compose file says that there is none
    if installation.store is not None:
        entry = installation.store.entry.model_dump(mode="json", exclude_none=True)
        (tmp_path / "stores.json").write_text(json.dumps({"version": "1", "stores": [entry]}))
        monkeypatch.setenv("GATEWRIGHT_BUNDLE_STORE", str(installation.store.address))
    told_where(installation, tmp_path, private_key, monkeypatch)
    with pytest.raises(ConfigurationError) as refused:
        await expiry_round(None, [tmp_path], yes=True)
    assert refused.value.reason == "identity_missing"
    planned = await expiry_round(None, (), yes=False)
    assert [item.action for item in planned.runs or ()] == ["expire"]
    assert planned.expired_runs == ()
    (done,) = (await expiry_round(None, (), yes=True)).expired_runs
    assert (done.item.run_id, done.code) == (run_id, "")
    assert await installation.kinds(run_id) == ["run_expired"]


async def test_the_resident_command_runs_a_round_and_leaves_on_request(
    installation: Installation, tmp_path: Path, private_key: keys.PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await installation.seal(1, days_old=3000)
    told_where(installation, tmp_path, private_key, monkeypatch)
    argv = (sys.executable, "-m", "gatewright.app.cli.main", "gc", "--ledger", "--yes", "--every", "24")
    out = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=asyncio.subprocess.STDOUT)
    assert process.stdout is not None
    said = []
    while line := await process.stdout.readline():
        said.append(line)
        if b"expiry_round_done" in line:
            process.send_signal(signal.SIGTERM)
    assert (await process.wait(), len([line for line in said if b"expiry_round_done" in line])) == (0, 1), said
    assert await installation.kinds(run_id) == ["run_expired"]
