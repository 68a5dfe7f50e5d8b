"""The head of an installer's request, read more strictly than RFC 9112: what two programs could read differently is refused.

A pull has requests without a body only, so that no second request can hide in one. Where bodies are allowed, the head gives
their length or they come in chunks, and the connection ends after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from gatewright.errors import DeniedError
from gatewright.patterns import TextPattern

#: Bytes of a whole head.
MOST_BYTES: Final = 16_384
_MOST_HEADERS: Final = 64
_REQUEST: Final = TextPattern(r"(?P<method>[A-Z]{1,20}) (?P<target>[!-~]+) HTTP/1\.(?P<minor>[01])")
_LINE: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}:[ -~\t]*"
_HEADER: Final = TextPattern(_LINE)
_HEADERS: Final = TextPattern(rf"(?:{_LINE}\r\n)*")
#: Headers of a body, of another protocol, of another method or address, or of a further answer.
_REFUSED: Final = frozenset(
    {
        "transfer-encoding",
        "trailer",
        "upgrade",
        "expect",
        "content-encoding",
        "http2-settings",
        "sec-websocket-key",
        "forwarded",
    }
    | {"x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url", "x-forwarded-host"}
)
_CONNECTION: Final = frozenset({"", "keep-alive", "close", "te"})
_CHUNK: Final = TextPattern(r"(?P<size>[0-9A-Fa-f]{1,8})\r\n")
_LENGTH: Final = TextPattern(r"0|[1-9][0-9]{0,11}")


class RequestHead(NamedTuple):
    """A request line and its headers; names are in lower case."""

    method: str
    target: str
    minor: int
    headers: Mapping[str, str]

    @property
    def stays(self) -> bool:
        """Whether the client may send another request on the connection."""
        return (
            self.minor == 1
            and not self.length
            and not self.chunked
            and "close" not in self.headers.get("connection", "").lower()
        )

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return int(self.headers.get("content-length", "0"))

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes of the next head with its empty line; empty at the end of the connection.

    What is too large, ends early, or has a line that does not end in CR LF is returned as far as it was read.
    """
    lines: list[bytes] = []
    size = 0
    try:
        while size <= MOST_BYTES and (not lines or (lines[-1] != b"\r\n" and lines[-1].endswith(b"\r\n"))):
            lines.append(await reader.readuntil(b"\n"))
            size += len(lines[-1])
    except asyncio.LimitOverrunError:
        lines.append(await reader.read(80))
    except asyncio.IncompleteReadError as error:
        lines.append(error.partial)
    return b"".join(lines)


async def read_chunks(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return a body that comes in chunks without extensions and trailers (RFC 9112, 7.1).

    Raises DeniedError (``egress_request_malformed``; ``egress_limit`` for more than ``most`` bytes), IncompleteReadError.
    """
    body = bytearray()
    while True:
        size = _CHUNK.fullmatch((await _line(reader)).decode("ascii", "replace"))
        if size is None:
            raise _malformed("a chunk begins with its size in hexadecimal digits, and nothing else")
        length = int(size["size"], 16)
        if len(body) + length > most:
            raise body_too_large(most)
        body += await reader.readexactly(length)
        if await _line(reader) != b"\r\n":
            raise _malformed("a chunk ends with CR LF, and the last one has no trailers")
        if not length:
            return bytes(body)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return a line, or the part of it that shows that it is too long."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        return await reader.read(80)


def parse_head(data: bytes, *, bodies: bool = False) -> RequestHead:
    """Return the head in ``data``, up to and with its empty line. ``bodies``: methods other than GET and HEAD may have one.

    Raises DeniedError (``egress_request_malformed``) for a head that is not exactly one request.
    """
    text = data.decode("ascii", "replace")
    if len(data) > MOST_BYTES or not text.endswith("\r\n\r\n"):
        raise _malformed(f"a head has at most {MOST_BYTES} bytes, and lines that end in CR LF")
    first, _, rest = text[:-2].partition("\r\n")
    others = rest.split("\r\n")[:-1]
    request = _REQUEST.fullmatch(first)
    if request is None or len(others) > _MOST_HEADERS:
        raise _malformed(f"a head begins with METHOD TARGET HTTP/1.1, and has at most {_MOST_HEADERS} headers")
    headers: dict[str, str] = {}
    formed = _HEADERS.fullmatch(rest) is not None
    for line in others:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in headers or not (formed or _HEADER.fullmatch(line) is not None):
            raise _malformed(f"{name[:80]!r}: each header is one line NAME: VALUE, and no header occurs twice")
        headers[name] = value.strip(" \t")
    _check_headers(headers, bodies=bodies and request["method"] not in {"GET", "HEAD", "CONNECT"})
    return RequestHead(request["method"], request["target"], int(request["minor"]), headers)


def _check_headers(headers: Mapping[str, str], *, bodies: bool) -> None:
    plain = {"expect": "100-continue", "content-encoding": "gzip"} if bodies else {}
    if bodies and "content-length" not in headers:
        plain["transfer-encoding"] = "chunked"
    usual = {name for name, value in plain.items() if headers.get(name, "").lower() == value}
    refused = sorted((_REFUSED - usual) & headers.keys())
    length = headers.get("content-length", "0")
    if length != "0" and not (bodies and _LENGTH.fullmatch(length) is not None):
        refused.append("content-length")
    tokens = {each.strip() for each in headers.get("connection", "").lower().split(",")}
    if not tokens <= _CONNECTION:
        refused.append("connection")
    if refused:
        form = "a body with its length or in chunks" if bodies else "GET or HEAD without a body, upgrade or other method"
        raise _malformed(f"{refused[0]}: send {form}")


def body_too_large(most: int) -> DeniedError:
    """Return the refusal (``egress_limit``) of a body of more than ``most`` bytes."""
    return DeniedError(f"a body has at most {most} bytes (`body_bytes` of a deployment)", code="egress_limit")


def _malformed(message: str) -> DeniedError:
    return DeniedError(message, code="egress_request_malformed")
