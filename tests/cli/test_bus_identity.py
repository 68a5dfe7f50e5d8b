"""`gatewright keys bus` and `gatewright topology --format nats-conf`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command


def test_identities_are_made_once_and_become_a_configuration(gatewright: Command, tmp_path: Path) -> None:
    made = gatewright("keys", "bus", "--publisher", "ci", "--json").documents[0]
    assert "publisher-ci" in made["made"]
    assert gatewright("keys", "bus", "--json").documents[0]["made"] == []
    assert "found  worker" in gatewright("keys", "bus").out
    said = gatewright("topology", "--format", "nats-conf", "--store", "/data", "--listen", "0.0.0.0:4222")
    assert said.exit_code == 0
    assert made["public_keys"]["publisher-ci"] in said.out
    assert 'store_dir: "/data"' in said.out
    assert not any(path.read_text().strip() in said.out for path in Path(made["directory"]).glob("*.nk"))


def test_no_configuration_without_identities_or_a_store(gatewright: Command, tmp_path: Path) -> None:
    empty = gatewright("topology", "--format", "nats-conf", "--store", "/data", "--keys", tmp_path)
    assert (empty.exit_code, "gatewright keys bus" in empty.err) == (3, True)
    assert gatewright("topology", "--format", "nats-conf").exit_code == 2
    assert gatewright("keys", "bus", "--publisher", "A.B").exit_code == 2
    half = ("--store", "/data", "--tls-cert", "c.pem")
    assert gatewright("topology", "--format", "nats-conf", *half).exit_code == 2
