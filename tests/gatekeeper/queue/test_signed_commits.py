"""Signed commits of a merge queue: gatekeepers take the commits of a position from each other, and never sign it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gatewright.errors import GatewrightError
from gatewright.evidence.verification.verify import verify
from gatewright.git.access.credentials import NO_ACCESS
from gatewright.queue.events import PositionComposed
from gatewright.queue.state import Queue
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.queue.composing import Composer
from tests.gatekeeper.queue.cluster import Cluster, Connect, open_cluster
from tests.git.access.signing_keys import EMAIL, SigningKey, make_ssh_key, needs_signing_programs, openpgp_key
from tests.git.repositories import MakeRepository

pytestmark = needs_signing_programs
NAMES = ("one", "two")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningKey]:
    """An OpenPGP key, whose signatures differ each time."""
    with openpgp_key(monkeypatch.setenv) as made:
        yield made


@pytest.fixture
async def cluster(connect: Connect, make_repository: MakeRepository, tmp_path: Path, key: SigningKey) -> AsyncIterator[Cluster]:
    """No gatekeeper yet; each has the key."""
    async with open_cluster(connect, tmp_path, make_repository(), members=0) as opened:
        opened.access = key.access(tmp_path / "policies", opened.target.url)
        yield opened


async def landed(cluster: Cluster, *names: str) -> list[str]:
    """The commits of runs that landed, with bundles that verify."""
    assert await cluster.ended(*names) == dict.fromkeys(names, "landed")
    assert all(verify(cluster.bundle(name), [cluster.public_key]).ok for name in names)
    commits = [(await cluster.receipt(name)).commits()[run_id_of(name)] for name in names]
    assert commits == cluster.history()[1:] == cluster.ref_updates()
    return commits


async def composed(cluster: Cluster) -> list[PositionComposed]:
    return [event for event in await cluster.events() if isinstance(event, PositionComposed)]


def in_test(queue: Queue) -> bool:
    """Whether a position is composed, and waits for its tests."""
    return bool(queue.line and queue.line[0].tree and queue.tests)


async def test_every_commit_of_a_queue_is_signed(cluster: Cluster, key: SigningKey) -> None:
    for _ in range(2):
        await cluster.add()
    for name in NAMES:
        await cluster.enqueue(name, {f"{name}.txt": b"1\n"})
    commits = await landed(cluster, *NAMES)
    assert all(key.verifies(cluster.target, commit) for commit in commits)
    assert cluster.target.git("show", "-s", "--format=%ce", commits[-1]).decode().strip() == EMAIL


async def test_another_gatekeeper_lands_the_commits_of_one_that_ended(cluster: Cluster, key: SigningKey) -> None:
    first = await cluster.add()
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(in_test, serves=False)
    first.kill()
    await cluster.add()
    (commit,) = await landed(cluster, "one")
    (position,) = await composed(cluster)
    assert position.commits == (commit,)
    assert position.signed
    assert key.verifies(cluster.target, commit)


async def test_a_gatekeeper_without_the_key_lands_signed_commits_of_another(cluster: Cluster, key: SigningKey) -> None:
    first = await cluster.add()
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(in_test, serves=False)
    first.kill()
    cluster.access = NO_ACCESS
    await cluster.add()
    assert key.verifies(cluster.target, *await landed(cluster, "one"))


async def test_a_position_without_signatures_stays_as_it_is(cluster: Cluster, key: SigningKey) -> None:
    signing, cluster.access = cluster.access, NO_ACCESS
    first = await cluster.add()
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(in_test, serves=False)
    first.kill()
    cluster.access = signing
    await cluster.add()
    (commit,) = await landed(cluster, "one")
    (position,) = await composed(cluster)
    assert (position.commits, position.signed) == ((commit,), "")
    assert not key.verifies(cluster.target, commit)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"Gatewright-Run", b"Gatewright-Ran"), (b"\ntree ", b"\nfree "), (b"\nparent ", b"\nparent 0"), (b" commit ", b" blob ")],
    ids=["message", "tree", "parent", "kind"],
)
async def test_altered_commits_of_the_artifact_store_are_refused(cluster: Cluster, old: bytes, new: bytes) -> None:
    first = await cluster.add()
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    queue = await cluster.until(in_test, serves=False)
    first.kill()
    position = queue.line[0]
    stored = await cluster.bus.get_artifact(position.signed)
    second = await cluster.add(starts=False)

    class Altering:
        """The artifact store, which answers with other bytes for this artifact."""

        async def put_artifact(self, data: bytes) -> str:
            return await cluster.bus.put_artifact(data)

        async def get_upload(self, uri: str, publisher: str) -> bytes:
            return await cluster.bus.get_upload(uri, publisher)

        async def get_artifact(self, uri: str) -> bytes:
            return stored.replace(old, new, 1) if uri == position.signed else await cluster.bus.get_artifact(uri)

    composer = second.queues.composer
    altered = Composer(composer.ledger, composer.mirrors, Altering())
    with pytest.raises(GatewrightError) as caught:
        await altered.bring(queue, position.tree)
    assert caught.value.reason in {"tree_differs", "receipt_contradicts", "object_missing"}
    mirror = await composer.bring(queue, position.tree)
    assert await mirror.tree_of(position.commits[-1]) == position.tree


async def test_a_key_that_is_lost_delays_a_position_until_it_is_back(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path
) -> None:
    key = make_ssh_key(tmp_path / "key")
    file = tmp_path / "key" / "signing"
    async with open_cluster(connect, tmp_path, make_repository(), members=0) as cluster:
        cluster.access = key.access(tmp_path / "policies", cluster.target.url)
        await cluster.add()
        await cluster.enqueue("one", {"one.txt": b"1\n"})
        await cluster.until(in_test, serves=False)
        content = file.read_bytes()
        await cluster.enqueue("two", {"two.txt": b"1\n"})
        file.unlink()
        assert await cluster.ended("one") == {"one": "landed"}
        await cluster.until(lambda queue: bool(queue.line))
        file.write_bytes(content)
        file.chmod(0o600)
        assert all(key.verifies(cluster.target, commit) for commit in await landed(cluster, *NAMES))
