"""Property of the strict parser: what it accepts is one unambiguous request, however the bytes came to be."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.egress.request_head import MOST_BYTES, parse_head, read_head
from gatewright.errors import DeniedError

WORDS = [b"GET", b"POST", b" ", b"/", b"/a", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\r", b"\n", b"\t", b":", b"Host:", b"a", b","]
LINES = [
    b"GET / HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Accept: */*\r\n",
    b"Upgrade: h2c\r\n",
    b"Content-Length: 0",
    b"Content-Length: 1",
]
ENDS = [b"Transfer-Encoding: chunked", b"Connection: close", b"\x00", b"\xff", b"\r\n\r\n"]
BYTES = st.lists(st.sampled_from([*WORDS, *LINES, *ENDS]) | st.binary(max_size=8), max_size=12).map(b"".join)


@settings(settings.get_profile("few"), max_examples=300)
@given(BYTES)
def test_an_accepted_head_is_one_request_without_a_body(data: bytes) -> None:
    try:
        head = parse_head(data)
    except DeniedError:
        return
    lines = data.decode("ascii").split("\r\n")
    assert lines[-2:] == ["", ""]
    assert data.count(b"\n") == data.count(b"\r") == len(lines) - 1
    assert lines[0] == f"{head.method} {head.target} HTTP/1.{head.minor}"
    assert len(head.headers) == len(lines) - 3
    assert not {"transfer-encoding", "upgrade"} & head.headers.keys()
    assert head.headers.get("content-length", "0") == "0"


@settings(settings.get_profile("few"), max_examples=100)
@given(BYTES, BYTES)
def test_the_reader_takes_one_head_and_nothing_after_it(first: bytes, second: bytes) -> None:
    async def read() -> tuple[bytes, bytes]:
        reader = asyncio.StreamReader(limit=MOST_BYTES)
        reader.feed_data(b"GET / HTTP/1.1\r\n" + first + b"\r\n\r\n" + second)
        reader.feed_eof()
        return await read_head(reader), await reader.read()

    head, remaining = asyncio.run(read())
    assert b"GET / HTTP/1.1\r\n" + first + b"\r\n\r\n" + second == head + remaining
    try:
        parse_head(head)
    except DeniedError:
        return
    assert head.endswith(b"\r\n\r\n")
    assert head.count(b"\r\n\r\n") == 1
