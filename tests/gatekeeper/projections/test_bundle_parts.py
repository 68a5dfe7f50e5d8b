"""A publisher gets the sealed bundles of its own runs over the bus, part by part, and no others."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from gatewright.app.cli.bundle_sources import receive_bundle
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message
from gatewright.client.client import Client
from gatewright.contracts import AbortRequest, BundlePart, BundleRequest, Error, RunRequest, SubmitReply, codec
from gatewright.errors import StoreError, VerificationError
from gatewright.evidence.signing import keys
from gatewright.evidence.store.objects import MAX_ARCHIVE_BYTES
from gatewright.evidence.verification.verify import verify
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.projections import bundle_archives
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake


@pytest.fixture
async def intake(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[IntakeFixture]:
    opened = open_intake(bus, gates, tmp_path, make_publisher("default"), make_publisher("acme"), make_publisher("beta"))
    yield opened
    for task in opened.following:
        task.cancel()
    await asyncio.gather(*opened.following, return_exceptions=True)


async def begin(intake: IntakeFixture, request: RunRequest, publisher: str) -> str:
    answer = await intake.submit(request, publisher)
    assert isinstance(answer, SubmitReply), answer
    return answer.run_id


async def end(intake: IntakeFixture, run_id: str, publisher: str) -> None:
    await intake.store(AbortRequest(run_id=run_id, reason="enough", requested_by="me"), publisher, want="abort")


async def part(intake: IntakeFixture, run_id: str, publisher: str, offset: int = 0) -> BundlePart | Error:
    reply = await intake.ask("bundle", codec.encode(BundleRequest(run_id=run_id, offset=offset)), publisher)
    return codec.decode(reply.data, BundlePart) if reply.schema == "bundle_part.v1" else codec.decode(reply.data, Error)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class _Asking:
    """A bus whose only peer is the intake, for the client of ``publisher``; ``spoil`` may change an answer."""

    def __init__(self, intake: IntakeFixture, publisher: str) -> None:
        self.intake, self.publisher, self.asked = intake, publisher, 0
        self.spoil: Callable[[BundlePart, int], BundlePart] = lambda answer, _number: answer

    async def request(self, subject: str, data: bytes, *, schema: str, timeout: float) -> Message:  # noqa: ASYNC109
        assert (subject, schema) == (f"gw.bundle.{self.publisher}", "bundle_request.v1")
        self.asked += 1
        reply = await self.intake.ask("bundle", data, self.publisher)
        answer = reply.data
        if reply.schema == "bundle_part.v1":
            answer = codec.encode(self.spoil(codec.decode(answer, BundlePart), self.asked))
        return Message(subject, answer, {"Gw-Schema": reply.schema})


async def test_a_publisher_receives_its_bundle_exactly_in_parts(
    intake: IntakeFixture, request_for: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_archives, "PART_BYTES", 10_000)
    run_id = await begin(intake, request_for, "acme")
    await end(intake, run_id, "acme")
    asking = _Asking(intake, "acme")
    client = Client(asking, publisher="acme", reads_ledger=False)  # type: ignore[arg-type]
    folder = await receive_bundle(client, run_id, tmp_path / "received")
    assert asking.asked > 2
    trusted = [keys.load_or_create(tmp_path / "key.pem").public]
    there, here = verify(tmp_path / "runs" / run_id, trusted), verify(folder, trusted)
    assert (here.run_id, here.signer, here.findings) == (run_id, trusted[0].key_id, there.findings)
    assert bytes_of(folder) == bytes_of(tmp_path / "runs" / run_id)


async def test_the_bundle_of_another_publishers_run_does_not_exist(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = await begin(intake, request_for, "acme")
    await end(intake, run_id, "acme")
    answer = await part(intake, run_id, "beta")
    assert isinstance(answer, Error)
    assert answer.code == "run_unknown"
    assert isinstance(await part(intake, run_id, "acme"), BundlePart)


async def test_a_run_that_is_open_has_no_bundle_to_give(intake: IntakeFixture, request_for: RunRequest) -> None:
    answer = await part(intake, await begin(intake, request_for, "acme"), "acme")
    assert isinstance(answer, Error)
    assert answer.code == "run_not_ended"


async def test_a_bundle_that_was_altered_on_the_host_is_not_handed_out(
    intake: IntakeFixture, request_for: RunRequest, tmp_path: Path
) -> None:
    run_id = await begin(intake, request_for, "acme")
    await end(intake, run_id, "acme")
    manifest = tmp_path / "runs" / run_id / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    answer = await part(intake, run_id, "acme")
    assert isinstance(answer, Error)
    assert answer.code == "stored_bundle_missing"


async def test_no_more_archives_are_kept_than_a_few(intake: IntakeFixture, request_for: RunRequest, tmp_path: Path) -> None:
    for number in range(bundle_archives.KEPT + 2):
        run_id = await begin(intake, msgspec.structs.replace(request_for, idempotency_key=f"order-{number:05}"), "acme")
        await end(intake, run_id, "acme")
        assert isinstance(await part(intake, run_id, "acme"), BundlePart)
    assert len(list((tmp_path / "outgoing").iterdir())) == bundle_archives.KEPT


@pytest.mark.parametrize(
    "fault",
    [{"data": ""}, {"data": "no base64!"}, {"sha256": "b" * 64}, {"offset": 7}, {"size": 1 << 40}, {"run_id": "run-other-one"}],
    ids=["empty", "no_base64", "another_archive", "another_place", "without_end", "another_run"],
)
async def test_parts_that_are_not_of_one_archive_are_refused(
    intake: IntakeFixture, request_for: RunRequest, monkeypatch: pytest.MonkeyPatch, fault: dict[str, object]
) -> None:
    monkeypatch.setattr(bundle_archives, "PART_BYTES", 10_000)
    run_id = await begin(intake, request_for, "acme")
    await end(intake, run_id, "acme")
    asking = _Asking(intake, "acme")
    asking.spoil = lambda answer, number: msgspec.structs.replace(answer, **fault) if number == 2 else answer
    client = Client(asking, publisher="acme", reads_ledger=False)  # type: ignore[arg-type]
    with pytest.raises(VerificationError) as refused:
        await client.receive_bundle(run_id, io.BytesIO(), limit=MAX_ARCHIVE_BYTES)
    assert refused.value.reason == "stored_bundle_altered"


async def test_a_bundle_larger_than_the_limit_is_not_reported_as_altered(
    intake: IntakeFixture, request_for: RunRequest
) -> None:
    run_id = await begin(intake, request_for, "acme")
    await end(intake, run_id, "acme")
    client = Client(_Asking(intake, "acme"), publisher="acme", reads_ledger=False)  # type: ignore[arg-type]
    with pytest.raises(StoreError) as refused:
        await client.receive_bundle(run_id, io.BytesIO(), limit=10)
    assert refused.value.reason == "stored_bundle_too_large"
