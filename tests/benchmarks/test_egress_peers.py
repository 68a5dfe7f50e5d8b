"""What the comparison of egress gateways takes for an arrival."""

from __future__ import annotations

import pytest

from benchmarks.egress_peers import ADDRESS, PORT, Arrival, judge
from tests.egress.registry import INDEX

HONEST = f"GET /simple/demo/ HTTP/1.1\r\nhost: {INDEX}:{PORT}\r\n\r\n"


def brought(text: str, address: str = ADDRESS, sni: str | None = INDEX) -> list[Arrival]:
    return [Arrival(0, address, PORT, sni, text.encode())]


ARRIVALS = {
    "nothing": ([], "refused"),
    "an empty connection to the registry": (brought("", sni=None), "refused"),
    "an empty connection elsewhere": (brought("", "192.0.2.1", None), "arrived"),
    "the honest request": (brought(HONEST), "honest"),
    "another spelling of its host": (brought(HONEST.replace(INDEX, "INDEX.example.")), "honest"),
    "another host": (brought(HONEST.replace(INDEX, "other.example")), "arrived"),
    "another server name": (brought(HONEST, sni="other.example"), "arrived"),
    "no TLS": (brought(HONEST, sni=None), "arrived"),
    "a body": (brought(f"{HONEST}abc"), "arrived"),
    "another address": (brought(HONEST, "127.0.0.1"), "arrived"),
    "the attempt's header": (brought(HONEST.replace("host", "Trailer: Host\r\nhost")), "arrived"),
}


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_only_a_request_of_the_same_meaning_is_honest(arrival: str) -> None:
    arrivals, result = ARRIVALS[arrival]
    assert judge("trailer", arrivals) == result
