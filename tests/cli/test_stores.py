"""Bundles in a store, by the command line: read by address, kept, removed, and every refusal with its code and exit code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.tombstone import FILE
from tests.cli.conftest import Command
from tests.cli.test_retention import ALL
from tests.evidence.recorded_runs import make_success
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import BUCKET, Reply, S3Server, serving


@pytest.fixture
def house(gatewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreHouse]:
    """A store with the bundle of a run, and a home folder whose key signed it."""
    with serving(S3Server()) as server:
        signer = Signer(keys.create(keys.home_key(tmp_path / ".gatewright")))
        made = StoreHouse(server, tmp_path, signer)
        asyncio.run(made.seal(make_success()))
        policies = tmp_path / "policies"
        policies.mkdir()
        credentials = {
            "access_key": {"file": str(tmp_path / "access.key")},
            "secret_key": {"environment": "A_SECRET_OF_THE_STORE"},
        }
        entry = {
            "places": [f"s3://{BUCKET}"],
            "endpoint": server.endpoint,
            "addressing": "path",
            "credentials": credentials,
        }
        (policies / "stores.json").write_text(json.dumps({"version": "1", "stores": [entry]}))
        monkeypatch.setenv("A_SECRET_OF_THE_STORE", (tmp_path / "secret.key").read_text())
        monkeypatch.setenv("GATEWRIGHT_POLICIES", str(policies))
        yield made


@pytest.fixture
def address(house: StoreHouse) -> str:
    return house.address.run(make_success().run_id)


def test_a_stored_bundle_is_verified_shown_replayed_and_reported(gatewright: Command, address: str, tmp_path: Path) -> None:
    run_id = address.rpartition("/")[2]
    said = gatewright("verify", address, "--json")
    assert said.exit_code == 0, said
    document = said.documents[0]
    assert (document["ok"], document["run_id"], document["location"]) == (True, run_id, address)
    assert gatewright("replay", address).exit_code == 0
    assert gatewright("report", address, "-o", "page.html").exit_code == 0
    assert run_id in gatewright("show", address).out
    assert gatewright("show", address, "--as", "done").exit_code == 0
    assert sorted(path.name for path in (tmp_path / ".gatewright").iterdir()) == ["keys"]


def test_a_run_is_found_in_the_store_that_the_settings_name(
    gatewright: Command, house: StoreHouse, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWRIGHT_BUNDLE_STORE", str(house.address))
    assert gatewright("verify", address.rpartition("/")[2]).exit_code == 0


def test_an_export_on_a_web_server_is_verified(gatewright: Command, house: StoreHouse, address: str) -> None:
    def hook(method: str, key: str, server: S3Server) -> Reply | None:
        found = server.newest(key)
        return Reply(404) if found is None else Reply(200, found.data)

    house.server.hook = hook
    place = f"{house.server.endpoint}/{BUCKET}/{house.address.prefix}/{address.rpartition('/')[2]}"
    assert gatewright("verify", place).exit_code == 0
    assert {method for method, _ in house.server.requests[-3:]} == {"GET"}


def test_a_bundle_is_fetched_into_a_folder(gatewright: Command, address: str, tmp_path: Path) -> None:
    said = gatewright("fetch", address, "-o", "got", "--json")
    assert said.exit_code == 0, said
    assert gatewright("verify", said.documents[0]["bundle"]).exit_code == 0


def test_a_bundle_in_a_store_is_held_and_removed(gatewright: Command, house: StoreHouse, address: str) -> None:
    assert gatewright("hold", address, "--reason", "case 12").exit_code == 0
    assert "case 12" in gatewright("hold", str(house.address)).out
    assert "on hold since" in gatewright("gc", str(house.address), *ALL, "--yes").out
    assert gatewright("hold", address, "--release", "--reason", "closed").exit_code == 0
    assert f"prune  {address.rpartition('/')[2]}" in gatewright("gc", str(house.address), *ALL).out
    document = gatewright("gc", str(house.address), *ALL, "--yes", "--json").documents[0]
    assert (document["removed"], document["left"]) == ([address.rpartition("/")[2]], [])
    said = gatewright("verify", address, "--json")
    assert (said.exit_code, [each["code"] for each in said.documents[0]["findings"]]) == (1, ["pruned"])
    assert said.documents[0]["findings"][0]["path"] == FILE


def test_missing_store_holds_are_reported_on_hold_not_on_release(gatewright: Command, house: StoreHouse, address: str) -> None:
    house.server.locks = False
    assert "no holds of its own" in gatewright("hold", address, "--reason", "case 12").err
    assert "no holds of its own" not in gatewright("hold", address, "--release", "--reason", "closed").err


@pytest.mark.parametrize("words", [("gc",), ("hold",), ("hold", "--reason", "case 12")], ids=" ".join)
def test_an_export_cannot_be_written(gatewright: Command, words: tuple[str, ...]) -> None:
    place = "https://evidence.example.org/team" + (f"/{make_success().run_id}" if "--reason" in words else "")
    said = gatewright(words[0], place, *words[1:], "--json")
    assert (said.documents[0]["error"]["code"], said.exit_code) == ("store_read_only", 2)


@pytest.mark.parametrize(
    ("reply", "code", "exit_code"),
    [
        (Reply(403), "store_denied", 3),
        (Reply(503), "store_unreachable", 3),
        (Reply(301, headers={"Location": "http://127.0.0.1:1/"}), "store_redirects", 3),
        (Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"), "stored_bundle_missing", 3),
        (Reply(404, b"<Error><Code>NoSuchBucket</Code></Error>"), "store_missing", 3),
        (Reply(200, b"{", {"Content-Length": "9000", "Connection": "close"}), "store_unreachable", 3),
        (Reply(200, b"{}"), "stored_bundle_altered", 1),
        (Reply(200, b" " * (1 << 20)), "stored_bundle_too_large", 2),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_every_refusal_has_a_code_and_an_exit_code(
    gatewright: Command, house: StoreHouse, address: str, reply: Reply, code: str, exit_code: int
) -> None:
    house.server.hook = lambda *_: reply
    said = gatewright("verify", address, "--json")
    assert (said.documents[0]["error"]["code"], said.exit_code) == (code, exit_code)


def test_a_missing_credential_is_named_by_reference_alone(
    gatewright: Command, house: StoreHouse, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = (house.folder / "secret.key").read_text()
    monkeypatch.delenv("A_SECRET_OF_THE_STORE")
    said = gatewright("verify", address, "--json")
    assert (said.documents[0]["error"]["code"], said.exit_code) == ("store_credentials_missing", 3)
    assert "A_SECRET_OF_THE_STORE" in said.out
    assert secret not in said.out + said.err


def test_an_address_with_a_password_is_refused_and_not_repeated(gatewright: Command) -> None:
    said = gatewright("verify", "s3://me:hunter2@evidence/run-0123456789abcdef0123", "--json")
    assert (said.documents[0]["error"]["code"], said.exit_code) == ("store_address_invalid", 2)
    assert "hunter2" not in said.out + said.err
