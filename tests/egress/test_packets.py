"""Sniffers in the network of a box and on the host's side of the gateway, during real pulls with pip."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gatewright.sandbox import DOOR_PORT
from tests.egress.sniffer import OWN_NETWORK, Packet


class Sniffed(NamedTuple):
    """The result of ``sniffed_pull``: all that it printed, and the packets of the box and of the host."""

    result: dict[str, Any]
    box: list[Packet]
    host: list[Packet]

    @property
    def sent(self) -> set[str]:
        return {name for name, outcome in self.result["outcomes"].items() if outcome == "sent"}

    def beside_the_gateway(self) -> list[Packet]:
        """Return the host's packets that belong to no connection of the gateway with the registry."""
        address, registry = self.result["marks"]["registry"]
        own = [{registry, port} for port in self.result["ports"]]
        return [
            each
            for each in self.host
            if each.kind != "tcp" or {each.source, each.target} != {address} or {each.source_port, each.target_port} not in own
        ]

    def beside_the_door(self) -> list[Packet]:
        """Return the box's packets that are not for its one proxy."""
        return [each for each in self.box if each.kind != "tcp" or DOOR_PORT not in {each.source_port, each.target_port}]


def sniff(folder: Path, way: str) -> Sniffed:
    argv = [*OWN_NETWORK, sys.executable, "-m", "tests.egress.sniffed_pull", str(folder), way]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    return Sniffed(result, *([Packet(*each) for each in result[place]] for place in ("box", "host")))


def targets(packets: list[Packet]) -> set[tuple[str, str, int]]:
    return {(each.kind, each.target, each.target_port) for each in packets}


def test_an_honest_pull_has_no_packet_beside_the_gateway(tmp_path: Path) -> None:
    pull = sniff(tmp_path, "install")
    assert pull.result["requests"] >= len(pull.result["ports"]) > 0
    assert {port for each in pull.host for port in (each.source_port, each.target_port)} > {*pull.result["ports"]}
    assert (pull.result["interfaces"], pull.beside_the_door(), pull.beside_the_gateway()) == (["lo"], [], [])
    assert pull.box


def test_no_packet_of_a_hostile_build_leaves_its_box(tmp_path: Path) -> None:
    pull = sniff(tmp_path, "hostile")
    marks = pull.result["marks"]
    assert pull.sent == {"DNS of the host"}  # a datagram to its own loopback, with no receiver
    assert (pull.result["interfaces"], pull.result["connections"], pull.beside_the_gateway()) == (["lo"], 0, [])
    assert [each for each in pull.box if not each.is_loopback] == []
    # The control: the box's sniffer does see what is not for the gateway, down to one datagram.
    own = {("udp", "127.0.0.53", 53), ("tcp", "127.0.0.1", marks["port"]), ("tcp", *marks["registry"])}
    assert targets(pull.beside_the_door()) > own


def test_the_same_program_leaves_without_a_box(tmp_path: Path) -> None:
    outside = sniff(tmp_path, "outside")
    marks = outside.result["marks"]
    quiet = {"name service", "DNS over TCP"}  # they have a packet and no answer
    assert outside.result["outcomes"].keys() - outside.sent == quiet
    assert outside.result["connections"] == 2
    tcp = {("tcp", address, marks["port"]) for address in ("127.0.0.1", "::1", "2001:db8::2", "169.254.169.254")}
    dns = {("udp", address, 53) for address in ("192.0.2.53", "2001:db8::53", "127.0.0.53")} | {("tcp", "192.0.2.53", 53)}
    assert targets(outside.beside_the_gateway()) > tcp | dns | {("icmp", "192.0.2.1", 0), ("0x88b5", "", 0)}
