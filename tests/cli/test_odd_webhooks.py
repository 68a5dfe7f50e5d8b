"""A webhook may answer anything: the notice is tried again with the next look, and the watch goes on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gatewright.app.cli.people.notices import Notifier

ANSWERS = (
    *(
        b"",
        b"x",
        b"\0" * 100,
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
    ),
    *(
        b"HTTP/1.1 200 " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"\xff\xfe\r\n\r\n",
    ),
    *(b"HTTP/1.1 301 x\r\nLocation: file:///etc/passwd\r\n\r\n", b"HTTP/1.1 302 x\r\nLocation: http://[\r\n\r\n"),
    *(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 500 x\r\nContent-Length: -5\r\n\r\n"),
)


@contextmanager
def answering(data: bytes) -> Iterator[str]:
    """The address of a server that gives one request these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            made, _ = listening.accept()
            with made:
                made.recv(65_536)
                made.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("data", ANSWERS)
def test_an_answer_of_a_webhook_of_any_shape_is_no_defect(data: bytes) -> None:
    with answering(data) as address:
        assert Notifier(webhook=address)._post(b"{}") in {True, False}


@pytest.mark.parametrize("address", ["https://[", "https://", "http://127.0.0.1:99999", "http://localhost:x", "https://a b/\n"])
def test_an_address_that_is_none_is_reported_and_not_raised(address: str) -> None:
    assert Notifier(webhook=address)._post(b"{}") is False
