"""A network of a test's own, and a sniffer for it and for the networks of its boxes.

No skip where the user is not root: ``unshare`` makes the user the network's owner, and each box's network is the user's own.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from gatewright.own_interpreter import loader_variables
from gatewright.sandbox.process.listening_inside import _enter

_AS_USER = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
_PINGS = 'echo "$(id -g) $(id -g)" > /proc/sys/net/ipv4/ping_group_range'
_ROUTES = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo"
#: Runs a command in a network where each address is this machine: nothing leaves it, and everything that is sent arrives.
OWN_NETWORK = ("unshare", *_AS_USER, "--net", "--mount", "sh", "-c", f'{_ROUTES} && {_PINGS} && exec "$@"', "sh")
_ETH_P_ALL, _IPV4, _IPV6 = 3, 0x0800, 0x86DD
_SOL_PACKET, _STATISTICS = 263, 6
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6"}
_CLEAR_AMBIENT = (47, 4)


class Packet(NamedTuple):
    """``kind`` is the protocol's name, or the number of an Ethernet type; ports are 0 where there are none."""

    interface: str
    kind: str
    source: str = ""
    source_port: int = 0
    target: str = ""
    target_port: int = 0

    @property
    def is_loopback(self) -> bool:
        return self.interface == "lo" and all(ipaddress.ip_address(each).is_loopback for each in (self.source, self.target))


def give_no_capability() -> None:
    """Keep the capabilities of ``OWN_NETWORK`` from the programs that this process starts: bubblewrap refuses them."""
    ctypes.CDLL(None).prctl(*_CLEAR_AMBIENT, 0, 0, 0)


class Sniffer:
    """Receives each packet of one network, from now on. ``interfaces`` are those that it has."""

    def __init__(self, receiving: socket.socket, interfaces: list[str]) -> None:
        self.interfaces = interfaces
        self._receiving = receiving
        self._receiving.setblocking(False)

    @classmethod
    def here(cls) -> Sniffer:
        return cls(_receive(), [name for _, name in socket.if_nameindex()])

    @classmethod
    def inside(cls, pid: int) -> Sniffer:
        """Raises CalledProcessError if the network of process ``pid`` cannot be entered."""
        network, (ours, theirs) = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), socket.socketpair()
        with ours, theirs:
            passed = (network, theirs.fileno())
            argv = [sys.executable, "-m", __name__, *map(str, passed)]
            subprocess.run(argv, pass_fds=passed, env=loader_variables(), check=True)
            os.close(network)
            names, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
        return cls(socket.socket(fileno=descriptors[0]), names.decode().split())

    def packets(self) -> list[Packet]:
        """Return the packets since the last call, each once. Raises RuntimeError if some were lost."""
        found = list(self._read())
        _, lost = struct.unpack("II", self._receiving.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        if lost:
            raise RuntimeError(f"{lost} packets were lost")
        return found

    def _read(self) -> Iterator[Packet]:
        while True:
            try:
                data, (interface, kind, direction, *_) = self._receiving.recvfrom(1 << 16)
            except BlockingIOError:
                return
            if interface != "lo" or direction != socket.PACKET_OUTGOING:  # on loopback it comes in again
                yield _parse(interface, kind, data)


def _receive() -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    return made


def _parse(interface: str, kind: int, data: bytes) -> Packet:
    if kind not in {_IPV4, _IPV6}:
        return Packet(interface, hex(kind))
    start, protocol, size = (data[0] % 16 * 4, data[9], 4) if kind == _IPV4 else (40, data[6], 16)
    at = 12 if kind == _IPV4 else 8
    source, target = (str(ipaddress.ip_address(data[each : each + size])) for each in (at, at + size))
    name = _PROTOCOLS.get(protocol, str(protocol))
    ports = struct.unpack("!HH", data[start : start + 4]) if name in {"tcp", "udp"} else (0, 0)
    return Packet(interface, name, source, ports[0], target, ports[1])


def _main(network: int, channel: int) -> None:
    _enter(network)
    with _receive() as made, socket.socket(fileno=channel) as out:
        socket.send_fds(out, [" ".join(name for _, name in socket.if_nameindex()).encode()], [made.fileno()])


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
