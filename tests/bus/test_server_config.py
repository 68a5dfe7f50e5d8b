"""The rendered configuration: what it always says, what it never says, and that the server takes it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.stack.nats_server import find_binary
from gatewright.bus import identities
from gatewright.bus.permissions import access_of
from gatewright.bus.server_config import BUS_ACCOUNT, Cluster, ServerConfig, Tls, accounts, render
from gatewright.errors import ConfigurationError


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    identities.make(tmp_path / "bus", (*identities.STANDING, "publisher-ci"))
    return accounts(identities.public_keys(tmp_path / "bus"))


def check(text: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What the server itself says of a configuration."""
    path = tmp_path / "server.conf"
    path.write_text(text, "utf-8")
    environment = {"GATEWRIGHT_CLUSTER_PASSWORD": "among-servers"}
    return subprocess.run([find_binary(), "-t", "-c", path], check=False, capture_output=True, text=True, env=environment)


def test_acknowledged_messages_are_on_disk_and_clients_need_keys(table: dict[str, Any], tmp_path: Path) -> None:
    text = render(ServerConfig(store=tmp_path, accounts=table))
    assert "sync_interval: always" in text
    assert text.count('"nkey"') == len(identities.STANDING) + 1
    for open_door in ("no_auth_user", "password", "token", "0.0.0.0"):  # noqa: S104 - looked for, not listened on
        assert open_door not in text


def test_no_account_may_fill_the_server_with_subscriptions(table: dict[str, Any]) -> None:
    """The server counts them by connection: what an identity can have is so many times the connections."""
    room = {
        name: account["limits"]["max_connections"] * account["limits"]["max_subscriptions"] for name, account in table.items()
    }
    assert set(room) > {"publisher-ci", "watcher", "worker"}
    assert {name for name, most in room.items() if most > 102_400} == {BUS_ACCOUNT}


def test_it_holds_no_seed(table: dict[str, Any], tmp_path: Path) -> None:
    text = render(ServerConfig(store=tmp_path, accounts=table))
    assert not any(path.read_text().strip() in text for path in (tmp_path / "bus").glob("*.nk"))


def test_the_server_takes_it_with_tls_and_in_a_cluster(table: dict[str, Any], tmp_path: Path) -> None:
    plain = ServerConfig(store=tmp_path / "store", accounts=table)
    assert check(render(plain), tmp_path).returncode == 0
    cluster = Cluster("c1", "0.0.0.0:6222", ("nats://nats-2:6222", "nats://nats-3:6222"))
    assert check(render(ServerConfig(store=tmp_path / "store", accounts=table, cluster=cluster)), tmp_path).returncode == 0
    missing = ServerConfig(store=tmp_path / "store", accounts=table, tls=Tls(tmp_path / "cert.pem", tmp_path / "key.pem"))
    assert "cert.pem" in check(render(missing), tmp_path).stderr


def test_a_path_or_name_cannot_break_out_of_the_configuration(table: dict[str, Any], tmp_path: Path) -> None:
    evil = 'a"\nauthorization: {}\nlisten: "0.0.0.0:4222'
    text = render(ServerConfig(store=tmp_path / evil, accounts=table, server_name=evil))
    assert "\nauthorization" not in text


def test_an_unknown_identity_or_invalid_publisher_name_is_refused() -> None:
    for stranger in ("stranger", "publisher-", "publisher-*", "publisher-a.b"):
        with pytest.raises(ConfigurationError):
            accounts({stranger: "U" * 56})


def test_the_server_keeps_no_way_back_for_pulls_that_are_over(table: dict[str, Any]) -> None:
    answered_by_many = [
        export for account in table.values() for export in account["exports"] if export.get("response_type") == "stream"
    ]
    assert any("MSG.NEXT" in export["service"] for export in answered_by_many)
    assert all(export["threshold"] == "20s" for export in answered_by_many)


def test_pools_have_their_own_queues_and_no_others(tmp_path: Path) -> None:
    identities.make(tmp_path / "bus")
    text = str(accounts(identities.public_keys(tmp_path / "bus"), ("gpu",))["worker"])
    assert "worker-gpu" in text
    assert "worker-default" not in text


def test_a_named_publisher_speaks_under_its_own_name_only() -> None:
    own = access_of("publisher-ci").publish
    assert {subject for subject in own if subject.startswith("gw.")} == {
        "gw.submit.ci",
        "gw.status.ci",
        "gw.events.ci",
        "gw.runs.ci",
        "gw.bundle.ci",
        "gw.context.ci",
        "gw.summon.ci",
        "gw.merge.ci",
        "gw.environment.ci",
        "gw.intake.request.ci",
        "gw.intake.contract.ci",
        "gw.intake.abort.ci",
        "gw.upload.ci.>",
    }
