"""Conformance of both backends: artifacts by their digest, and the compare-and-set keys."""

from __future__ import annotations

import asyncio
import hashlib
import os

import pytest

from gatewright.artifacts import uri_of
from gatewright.errors import ArtifactError, ConflictError, MalformedError
from tests.bus.backends import Backend, Connect


async def test_an_artifact_comes_back_as_it_was(connect: Connect) -> None:
    worker, reviewer = await connect("worker"), await connect("reviewer")
    for size in (0, 1, 2048, 512 * 1024, 512 * 1024 + 1, 3 * 1024 * 1024):
        data = os.urandom(size)
        uri = await worker.put_artifact(data)
        assert uri == f"artifact:sha256:{hashlib.sha256(data).hexdigest()}"
        assert await reviewer.get_artifact(uri) == data


async def test_putting_an_artifact_twice_is_harmless(connect: Connect) -> None:
    one, other = await connect("worker-1"), await connect("worker-2")
    uris = await asyncio.gather(*(bus.put_artifact(b"the same") for bus in (one, other, one, other)))
    assert len(set(uris)) == 1
    assert await one.get_artifact(uris[0]) == b"the same"


async def test_an_artifact_that_is_missing_is_an_error(connect: Connect) -> None:
    with pytest.raises(ArtifactError) as caught:
        await (await connect("worker")).get_artifact("artifact:sha256:" + 64 * "0")
    assert caught.value.reason == "artifact_missing"


async def test_a_uri_that_names_no_artifact_is_refused(connect: Connect) -> None:
    bus = await connect("worker")
    zeros = 64 * "0"
    for uri in ("", "artifact:sha256:", "artifact:sha256:" + 64 * "G", f"artifact:md5:{zeros}", f"artifact:sha256:{zeros}\n"):
        with pytest.raises(ArtifactError) as caught:
            await bus.get_artifact(uri)
        assert caught.value.reason == "bad_artifact_uri"


async def test_other_bytes_under_an_artifact_s_name_are_not_handed_out(backend: Backend) -> None:
    bus = await backend.connect("reviewer")
    for real, forged in ((b"harmless patch", b""), (b"another", b"malicious patch"), (b"a third", b"a third ")):
        uri = uri_of(real)
        await backend.spoil(uri, forged)
        with pytest.raises(ArtifactError) as caught:
            await bus.get_artifact(uri)
        assert caught.value.reason == "artifact_digest_mismatch"


async def test_an_artifact_damaged_by_another_writer_is_stored_again(backend: Backend) -> None:
    worker, reviewer = await backend.connect("worker"), await backend.connect("reviewer")
    for forged in (b"", b"malicious patch"):
        data = b"harmless patch " + forged
        await backend.spoil(uri_of(data), forged)
        uri = await worker.put_artifact(data)
        assert await reviewer.get_artifact(uri) == data
        assert await worker.put_artifact(data) == uri


async def test_a_key_is_created_changed_and_read(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    assert await bus.kv_get("repository/a") is None
    first = await bus.kv_put("repository/a", b"1", revision=0)
    second = await bus.kv_put("repository/a", b"2", revision=first)
    assert second > first
    assert await (await connect("other")).kv_get("repository/a") == (b"2", second)


async def test_a_key_that_exists_cannot_be_created(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await bus.kv_put("key", b"1", revision=0)
    with pytest.raises(ConflictError):
        await bus.kv_put("key", b"1", revision=0)


async def test_a_stale_revision_is_a_conflict(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    first = await bus.kv_put("key", b"1", revision=0)
    await bus.kv_put("key", b"2", revision=first)
    with pytest.raises(ConflictError):
        await bus.kv_put("key", b"3", revision=first)
    with pytest.raises(ConflictError):
        await bus.kv_put("other", b"3", revision=first)


async def test_of_many_who_take_a_lock_exactly_one_gets_it(connect: Connect) -> None:
    buses = [await connect(f"gatekeeper-{number}") for number in range(3)]
    tries = await asyncio.gather(
        *(bus.kv_put("key", b"me", revision=0) for bus in buses for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(result, int) for result in tries) == 1
    assert sum(isinstance(result, ConflictError) for result in tries) == len(tries) - 1


async def test_a_key_with_a_meaning_of_its_own_is_refused(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    for key in ("", "a b", "*", "a.>", ".a", "a.", "a..b", "a\nb", "x" * 300):
        with pytest.raises(MalformedError):
            await bus.kv_put(key, b"1", revision=0)
        with pytest.raises(MalformedError):
            await bus.kv_get(key)
