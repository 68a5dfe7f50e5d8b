"""What an operator says of streams: kept to on a real server, and refused where it cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.stream_settings import StreamSettings, read_days, read_sizes
from gatewright.bus.topology import STREAMS, intake_stream, upload_stream
from gatewright.errors import ConfigurationError, HostError
from gatewright.service.settings import ServiceSettings
from tests.bus.backends import Raw
from tests.unauthenticated_nats import OpenServer

MIB = 1 << 20
DAY = 86_400


def test_a_size_applies_to_a_stream_kind_or_one_publisher() -> None:
    said = StreamSettings.of("INTAKE=64MiB, INTAKE_payments=1GiB RESULTS=2GiB", "DEAD=90 UPLOADS=3")
    sizes = {name: said.apply_to(intake_stream(name)).max_bytes >> 20 for name in (DEFAULT_PUBLISHER, "operator", "payments")}
    assert sizes == {DEFAULT_PUBLISHER: 64, "operator": 64, "payments": 1024}
    uploads = said.apply_to(upload_stream("payments"))
    assert (uploads.max_bytes, uploads.keep_seconds) == (upload_stream("payments").max_bytes, 3 * DAY)
    unsaid = next(stream for stream in STREAMS if stream.name == "RUNS")
    assert said.apply_to(unsaid) is unsaid


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INTAKE=8MiB", "INTAKE needs 16MiB at the least"),
        ("RESULTS=16MiB", "RESULTS needs 64MiB at the least"),
        ("UPLOADS_payments=1MiB", "needs 16MiB"),
        ("RUNS=2000TiB", "1024TiB at most"),
        ("RUNS=12", "is not a size"),
        ("RUNS=-1GiB", "is not a size"),
        ("SOMETHING=1GiB", "is not a stream"),
        ("INTAKE_Payments=1GiB", "is not a stream"),
        ("RESULTS", "is not a stream"),
        ("DEAD=1GiB DEAD=2GiB", "named twice"),
    ],
)
def test_a_size_that_cannot_work_is_refused_with_what_can(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_sizes(text)


@pytest.mark.parametrize("name", ["RUNS", "ARTIFACTS", "TASKS", "RESULTS", "INTAKE", "INTAKE_payments", "EXHAUSTED"])
def test_ledger_artifacts_and_waiting_work_never_expire_by_age(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} forgets nothing by age"):
        read_days(f"{name}=400")


@pytest.mark.parametrize("text", ["DEAD=29", "UPLOADS=0", "DEAD=ninety", "DEAD=90.5"])
def test_an_age_below_the_least_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole days"):
        read_days(text)


def test_a_service_refuses_a_wrong_setting_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_STREAM_BYTES", "INTAKE=1MiB")
    with pytest.raises(ConfigurationError, match=r"GATEWRIGHT_STREAM_BYTES: .*16MiB at the least"):
        ServiceSettings.load()
    monkeypatch.setenv("GATEWRIGHT_STREAM_BYTES", "INTAKE=32MiB")
    monkeypatch.setenv("GATEWRIGHT_STREAM_DAYS", "RUNS=1")
    with pytest.raises(ConfigurationError, match=r"GATEWRIGHT_STREAM_DAYS: .*forgets nothing"):
        ServiceSettings.load()


async def test_configured_stream_settings_apply_to_new_and_existing_streams(tmp_path: Path, connect_raw: Raw) -> None:
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        assert (
            await ensure_topology(server.url, settings=StreamSettings.of("RESULTS=100MiB RUNS=1GiB INTAKE=32MiB", "DEAD=40"))
            == {}
        )
        raw = (await connect_raw(server)).jetstream()
        found = {
            name: (await raw.stream_info(name)).config for name in ("RESULTS", "RUNS", "INTAKE", "INTAKE_operator", "DEAD")
        }
        assert {name: config.max_bytes for name, config in found.items() if name != "DEAD"} == {
            "RESULTS": 100 * MIB,
            "RUNS": 1024 * MIB,
            "INTAKE": 32 * MIB,
            "INTAKE_operator": 32 * MIB,
        }
        assert found["DEAD"].max_age == 40 * DAY
        with pytest.raises(ConfigurationError, match="3 servers are to keep") as refused:
            await ensure_topology(server.url, replicas=3)
        assert refused.value.reason == "stream_replicas_too_many"


async def test_a_configured_size_is_not_reduced_when_storage_is_short(tmp_path: Path) -> None:
    async with await OpenServer.open(tmp_path / "nats", storage=700 * MIB) as server:
        with pytest.raises(HostError, match="has not the") as refused:
            await ensure_topology(server.url, settings=StreamSettings.of("RESULTS=1GiB", ""))
        assert refused.value.reason == "bus_storage_too_small"
