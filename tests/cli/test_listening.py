"""Where a program of ours is to serve, and another program does already."""

from __future__ import annotations

import socket

import pytest

from gatewright.app.http_access import listening_socket
from gatewright.errors import UnavailableError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_free_address_is_listened_on(host: str) -> None:
    with listening_socket(host, 0) as listening, socket.create_connection(listening.getsockname()[:2]):
        assert listening.getsockname()[1] > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "192.0.2.1"])
def test_address_that_is_taken_or_no_host_s_own_is_named(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"{host}:{port} cannot be served") as refused:
            listening_socket(host, port)
    assert refused.value.reason == "address_unavailable"
