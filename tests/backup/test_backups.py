"""Backups of a real NATS server and a home folder: kept, looked at, brought back; and those that must be refused."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.backup import contents as backup_contents
from gatewright.app.backup.contents import CONTENTS, BackupContents, check_files, is_later, read_backup
from gatewright.app.backup.restoring import bring_files, bring_streams, set_aside, staged_home
from gatewright.app.backup.taking import BackupOutcome, Installation, take_backup
from gatewright.app.stack import state
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus.identities import PROVISIONER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.stream_snapshots import StreamSnapshot
from gatewright.clock import SystemClock
from gatewright.errors import GatewrightError

LEDGER = 40
Change = Callable[[Path], None]


def silent(words: str) -> None:
    assert words


async def fill(server: NatsServer) -> None:
    """A ledger, and a task that waits."""
    await ensure_topology(server.address(PROVISIONER))
    bus = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
    try:
        for number in range(LEDGER):
            await bus.publish(f"gw.run.run-{number:04}", b"x" * 3000, schema="transition.v1", message_id=f"m{number}")
        await bus.publish("gw.task.worker.default.normal", b"{}", schema="task_contract.v1", message_id="t")
    finally:
        await bus.close()


def make_home(root: Path) -> Path:
    home = root / "home"
    (home / "keys" / "trusted").mkdir(parents=True)
    (home / "keys" / "trusted" / "old.pub").write_bytes(b"public\n")
    (home / "keys" / "gatekeeper.pem").write_bytes(b"private\n")
    (home / "keys" / "gatekeeper.pem").chmod(0o600)
    (home / "runs" / "run-open").mkdir(parents=True)
    (home / "runs" / "run-open" / "events.jsonl").write_bytes(b"{}\n")
    return home


async def keep(root: Path, folder: Path, *, partitions: int = 1, told: int | None = None) -> BackupOutcome:
    """``told``: the number of streams that who keeps it believes the ledger to have."""
    home = make_home(root)
    async with await NatsServer.start(root / "nats", keys=home / "bus", partitions=partitions) as server:
        await fill(server)
        address = replace(server.address(PROVISIONER), partitions=partitions if told is None else told)
        connection = await Connection.open(address, name="backup")
        files = {
            path.relative_to(home).as_posix(): path for path in home.rglob("*") if path.is_file() and "runs" not in path.parts
        }
        known = identities.public_keys(home / "bus")
        what = Installation(files=files, runs=home / "runs", signing_key="key", identities=known)
        try:
            return await take_backup(connection, what, folder, SystemClock(), silent)
        finally:
            await connection.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup that no test changes."""
    root = tmp_path_factory.mktemp("kept")
    asyncio.run(keep(root, root / "backup"))
    return root / "backup"


@pytest.fixture
def backup(kept: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "backup"))


def whole(folder: Path) -> BackupContents:
    contents, _ = read_backup(folder)
    check_files(folder, contents)
    return contents


def test_a_backup_is_for_its_owner_alone(kept: Path) -> None:
    for path in (kept, *kept.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_backup_holds_ledger_queues_and_keys_without_open_folders(kept: Path) -> None:
    contents = whole(kept)
    assert contents.moment == LEDGER
    streams = {stream.stream: stream.messages for stream in contents.streams}
    assert (streams["RUNS"], streams["TASKS"]) == (LEDGER, 1)
    assert [stream.stream for stream in contents.streams].index("RUNS") > [s.stream for s in contents.streams].index("INTAKE")
    assert {"keys/gatekeeper.pem", "keys/trusted/old.pub", "bus/gatekeeper.nk"} <= {file.path for file in contents.files}
    assert contents.bundles == ()


async def test_a_restore_returns_streams_files_and_waiting_tasks(backup: Path, tmp_path: Path) -> None:
    contents = whole(backup)
    home = tmp_path / "new"
    with staged_home(home) as staging:
        bring_files(backup, contents, staging, silent)
        async with await NatsServer.start(staging / "nats", keys=staging / "bus") as server:
            connection = await Connection.open(server.address(PROVISIONER), name="restore")
            await bring_streams(connection, backup, contents, None, silent)
            await connection.close()
    assert (home / "keys" / "gatekeeper.pem").stat().st_mode & 0o777 == 0o600
    async with await NatsServer.start(home / "nats", keys=home / "bus") as server:
        await ensure_topology(server.address(PROVISIONER))  # and nothing differs
        bus = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
        ledger = [message.sequence async for message in bus.replay("gw.run.*")]
        tasks = [message.subject async for message in bus.unsettled("gw.task.>")]
        await bus.close()
    assert ledger == list(range(1, LEDGER + 1))
    assert tasks == ["gw.task.worker.default.normal"]


def cut_the_ledger(folder: Path) -> None:
    path = folder / "streams" / "RUNS.snapshot"
    path.write_bytes(path.read_bytes()[:-100])


def alter_a_key(folder: Path) -> None:
    (folder / "home" / "keys" / "gatekeeper.pem").write_bytes(b"theirs!\n")


def lose_a_stream(folder: Path) -> None:
    (folder / "streams" / "TASKS.snapshot").unlink()


def add_a_file(folder: Path) -> None:
    (folder / "home" / "keys" / "trusted" / "theirs.pub").write_bytes(b"theirs\n")


def link_a_file(folder: Path) -> None:
    path = folder / "home" / "keys" / "gatekeeper.pem"
    outside = folder.parent / "outside"
    shutil.move(path, outside)
    path.symlink_to(outside)


def link_a_folder(folder: Path) -> None:
    shutil.move(folder / "home" / "keys", folder.parent / "keys")
    (folder / "home" / "keys").symlink_to(folder.parent / "keys")


def rewritten(change: Callable[[dict[str, Any]], None]) -> Change:
    def rewrite(folder: Path) -> None:
        document = json.loads((folder / CONTENTS).read_bytes())
        change(document)
        (folder / CONTENTS).write_text(json.dumps(document))

    return rewrite


def name_a_path(path: str) -> Change:
    """The file is there, with the right digest: only where it would be brought to is hostile."""
    return rewritten(lambda document: document["files"][0].update(path=path))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (cut_the_ledger, "backup_altered"),
        (alter_a_key, "backup_altered"),
        (lose_a_stream, "backup_altered"),
        (add_a_file, "backup_altered"),
        (link_a_file, "backup_altered"),
        (link_a_folder, "backup_altered"),
        (lambda folder: (folder / CONTENTS).unlink(), "backup_incomplete"),
        (lambda folder: (folder / CONTENTS).write_bytes((folder / CONTENTS).read_bytes()[:500]), "backup_altered"),
        (lambda folder: (folder / CONTENTS).write_bytes(b"\xff\xfe"), "backup_altered"),
        (lambda folder: (folder / CONTENTS).write_bytes(b"[" * 100_000), "backup_altered"),
        (shutil.rmtree, "not_a_backup"),
        (rewritten(lambda document: document.update(form="gatewright-backup.v2")), "backup_form_unknown"),
        (rewritten(lambda document: document["streams"][0]["config"].update(name="RUNS")), "backup_altered"),
        (rewritten(lambda document: document["streams"][0].update(stream="../../x")), "backup_altered"),
        (rewritten(lambda document: document["files"].append(document["files"][0])), "backup_altered"),
        (rewritten(lambda document: document["files"][0].update(mode=0o4755)), "backup_altered"),
        *(
            (name_a_path(path), "backup_altered")
            for path in ("../x", "/etc/x", "keys/../../x", "runs/x", "keys//x", "keys/\x00", "")
        ),
    ],
)
def test_a_hostile_backup_is_refused_before_anything_is_written(backup: Path, change: Change, code: str) -> None:
    change(backup)
    with pytest.raises(GatewrightError) as refused:
        whole(backup)
    assert refused.value.reason == code


def test_a_backup_whose_document_was_replaced_too_is_refused_by_its_digest(backup: Path) -> None:
    _, digest = read_backup(backup)
    rewritten(lambda document: document.update(signing_key="theirs"))(backup)
    with pytest.raises(GatewrightError) as refused:
        read_backup(backup, f"sha256:{digest}")
    assert refused.value.reason == "backup_altered"


async def test_a_server_of_another_installation_is_given_nothing(backup: Path, tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path / "other") as server:
        connection = await Connection.open(server.address(PROVISIONER), name="restore")
        with pytest.raises(GatewrightError) as refused:
            await bring_streams(connection, backup, whole(backup), None, silent)
        assert refused.value.reason == "backup_foreign"
        await connection.close()


async def test_a_server_that_has_a_stream_is_given_nothing(backup: Path, tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path / "used", keys=backup / "home" / "bus") as server:
        await ensure_topology(server.address(PROVISIONER))
        connection = await Connection.open(server.address(PROVISIONER), name="restore")
        with pytest.raises(GatewrightError) as refused:
            await bring_streams(connection, backup, whole(backup), None, silent)
        assert refused.value.reason == "restore_target_in_use"
        await connection.close()


def test_a_home_folder_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    with pytest.raises(GatewrightError) as refused, staged_home(tmp_path):
        pass
    assert refused.value.reason == "restore_target_in_use"


def test_an_interrupted_restore_blocks_the_stack_and_can_be_repeated(backup: Path, tmp_path: Path) -> None:
    home = tmp_path / "new"
    contents = whole(backup)
    (backup / "home" / "keys" / "gatekeeper.pem").unlink()
    with pytest.raises(FileNotFoundError), staged_home(home) as staging:
        bring_files(backup, contents, staging, silent)
    with pytest.raises(GatewrightError) as refused, state.exclusive(home):
        pass
    assert refused.value.reason == "restore_unfinished"
    (backup / "home" / "keys" / "gatekeeper.pem").write_bytes(b"private\n")
    with staged_home(home) as staging:
        bring_files(backup, whole(backup), staging, silent)
    with state.exclusive(home):
        assert (home / "keys" / "gatekeeper.pem").is_file()


async def test_a_folder_that_holds_something_is_no_place_for_a_backup(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "note").touch()
    with pytest.raises(GatewrightError) as refused:
        await keep(root, tmp_path / "used")
    assert refused.value.reason == "backup_exists"
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["note"]


def test_nothing_is_put_aside_where_no_bundle_is_newer_than_the_ledger(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    assert set_aside(home, [snapshot_of("RUNS", LEDGER)]) == ()
    assert (home / "runs" / "run-open").is_dir()


async def test_a_ledger_in_several_streams_is_restored_completely(tmp_path: Path) -> None:
    (tmp_path / "wrong").mkdir()
    with pytest.raises(GatewrightError) as refused:
        await keep(tmp_path / "wrong", tmp_path / "less", partitions=3, told=1)
    assert refused.value.reason == "ledger_partitions_differ"
    (tmp_path / "right").mkdir()
    kept = (await keep(tmp_path / "right", tmp_path / "backup", partitions=3)).contents
    assert {"RUNS", "RUNS_1", "RUNS_2"} <= {stream.stream for stream in kept.streams}
    assert kept.moment == LEDGER
    home = tmp_path / "new"
    with staged_home(home) as staging:
        bring_files(tmp_path / "backup", kept, staging, silent)
        async with await NatsServer.start(staging / "nats", keys=staging / "bus", partitions=3) as server:
            connection = await Connection.open(server.address(PROVISIONER), name="restore")
            await bring_streams(connection, tmp_path / "backup", kept, None, silent)
            await connection.close()
            bus = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
            found = [message.subject async for message in bus.replay("gw.run.*")]
            await bus.close()
    assert sorted(found) == [f"gw.run.run-{number:04}" for number in range(LEDGER)]


def snapshot_of(stream: str, last: int) -> StreamSnapshot:
    return StreamSnapshot(stream=stream, sha256="", size=0, messages=last, last_sequence=last, config={}, state={})


def test_a_bundle_is_backed_up_after_its_ledger_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [snapshot_of("RUNS", 10), snapshot_of("RUNS_1", 4), snapshot_of("RUNS_2", 7), snapshot_of("TASKS", 99)]
    layout = LedgerLayout(3)
    ends = {layout.place(part, last + more): more > 0 for part, last in enumerate((10, 4, 7)) for more in (0, 1)}
    for place, later in ends.items():
        monkeypatch.setattr(backup_contents, "ended_at", lambda _run, place=place: place)
        assert is_later(tmp_path, streams) is later
