"""Calls of a forge's REST API: no redirects, answers bounded in size and time, and errors of two families.

The token goes into one header, and never into a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from gatewright.app.forge.port import ForgeUnavailableError
from gatewright.errors import DeniedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

T = TypeVar("T")

#: Items of one page, which all forges permit. Few, as a description may have a megabyte.
_PAGE_ITEMS: Final = 30
#: Longest wait that a forge may ask for, in seconds.
_LONGEST_WAIT: Final = 3600.0
#: Characters of the forge's own words in a message.
_MOST_WORDS: Final = 200
#: Headers that carry the token, after a scheme or alone.
_TOKEN_HEADERS: Final = ("Authorization", "PRIVATE-TOKEN")
_BUSY: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """``seconds`` and ``most_bytes`` of one answer; ``pages`` of one list."""

    seconds: float = 30.0
    most_bytes: int = 32 << 20
    pages: int = 300


@dataclass(frozen=True, slots=True)
class ForgeHttp:
    """``client`` has the base address and the headers, with the token.

    ``page_size``: name of the parameter for the items of a page. ``now``: seconds of the epoch, against which a forge's times
    are read.
    """

    client: httpx2.AsyncClient
    page_size: str
    limits: HttpLimits
    now: Callable[[], float]

    async def get(self, kind: type[T], *path: str | int, **query: str | int) -> T:
        """Return one document. Raises ForgeUnavailableError, DeniedError (``forge_denied``, ``forge_refused``)."""
        return _decode(self._accept(await self._exchange("GET", path, query)).content, kind)

    async def find(self, kind: type[T], *path: str | int, **query: str | int) -> T | None:
        """Return one document; None if the forge has none. Raises as ``get`` does."""
        answer = await self._exchange("GET", path, query)
        return None if answer.status_code == 404 else _decode(self._accept(answer).content, kind)

    async def pages(self, kind: type[T], *path: str | int, **query: str | int) -> AsyncIterator[T]:
        """Yield the pages of a list. Raises as ``get`` does, also for a list that does not end.

        Only the existence of a next page is read from the forge: a token never follows an address that an answer names.
        """
        for page in range(1, self.limits.pages + 1):
            answer = self._accept(await self._exchange("GET", path, {**query, self.page_size: _PAGE_ITEMS, "page": page}))
            yield _decode(answer.content, kind)
            if "next" not in answer.links:
                return
        raise ForgeUnavailableError(f"a list of the forge has more than {self.limits.pages} pages")

    async def send(self, method: str, kind: type[T], *path: str | int, body: Mapping[str, Any]) -> T:
        """Send a document and return the answer. Raises as ``get`` does. A call is never repeated here."""
        return _decode(self._accept(await self._exchange(method, path, {}, msgspec.json.encode(body))).content, kind)

    async def perform(self, method: str, *path: str | int, body: Mapping[str, Any]) -> None:
        """Send a document whose answer has no content of interest. Raises as ``get`` does."""
        self._accept(await self._exchange(method, path, {}, msgspec.json.encode(body)))

    async def _exchange(
        self, method: str, path: tuple[str | int, ...], query: Mapping[str, str | int], content: bytes | None = None
    ) -> httpx2.Response:
        """Return the complete answer. No exception of the client is its cause: one shows the header with the token."""
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(self.limits.seconds),
                self.client.stream(method, _target(path), params=dict(query), content=content, headers=headers) as answer,
            ):
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise ForgeUnavailableError("the forge's answer is compressed, which was not asked for")
                received = bytearray()
                async for part in answer.aiter_raw():
                    received += part
                    if len(received) > self.limits.most_bytes:
                        raise ForgeUnavailableError(f"the forge's answer has more than {self.limits.most_bytes} bytes")
                return httpx2.Response(
                    answer.status_code, headers=answer.headers, content=bytes(received), request=answer.request
                )
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            raise ForgeUnavailableError(f"the forge cannot be reached ({type(error).__name__})") from None

    def _accept(self, answer: httpx2.Response) -> httpx2.Response:
        """Return an answer of success. Raises for all others."""
        status = answer.status_code
        if 200 <= status < 300:
            return answer
        reported = _reported(answer)
        # The path as it was sent: its names come from strangers, and are still quoted there.
        path = answer.request.url.raw_path.decode("ascii").partition("?")[0]
        words = f"the forge answers {status} to {answer.request.method} {path}: {reported or 'no message'}"
        wait = self._wait(answer.headers)
        limited = status == 403 and (wait is not None or "rate limit" in reported.lower())
        if status in _BUSY or status >= 500 or limited:
            raise ForgeUnavailableError(words, retry_after=wait)
        if status in (401, 403):
            raise DeniedError(words, code="forge_denied")
        raise DeniedError(words, code="forge_refused")

    def _wait(self, headers: Mapping[str, str]) -> float | None:
        """Return the seconds that the forge asks to wait: RFC 9110, section 10.2.3, or else its limit's end."""
        moment: float | None = None
        asked = headers.get("Retry-After", "")
        if (seconds := _whole_number(asked)) is not None:
            return min(seconds, _LONGEST_WAIT)
        if asked:
            try:
                moment = parsedate_to_datetime(asked).timestamp()
            except (ValueError, OverflowError, OSError):
                return None
        for prefix in ("X-RateLimit", "RateLimit"):
            if moment is None and headers.get(f"{prefix}-Remaining") == "0":
                moment = _whole_number(headers.get(f"{prefix}-Reset", ""))
        return None if moment is None else min(max(moment - self.now(), 0.0), _LONGEST_WAIT)


def _reported(answer: httpx2.Response) -> str:
    """Return the forge's own message on one line, without the token that was sent: it may repeat what others wrote."""
    try:
        document = read_json(answer.content)
    except UnreadableDocumentError:
        return ""
    if not isinstance(document, dict):
        return ""
    errors = document.get("errors")
    parts = [document.get("message") or document.get("error"), *(errors if isinstance(errors, list) else [])]
    text = "; ".join(str(part.get("message", "") if isinstance(part, dict) else part) for part in parts if part)
    for name in _TOKEN_HEADERS:
        if token := answer.request.headers.get(name, "").rpartition(" ")[2]:
            text = text.replace(token, "***")
    return "".join(char if char.isprintable() else " " for char in text)[:_MOST_WORDS]


def _whole_number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None


def _target(path: tuple[str | int, ...]) -> str:
    """Join segments to a path. One that a stranger wrote, a login for instance, cannot add others."""
    segments = [quote(str(segment), safe="") for segment in path]
    if not {"", ".", ".."}.isdisjoint(segments):
        raise DeniedError("a name in a call of the forge is empty or made of dots", code="forge_refused")
    return "/" + "/".join(segments)


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return read_json(content, kind)
    except UnreadableDocumentError as error:
        raise ForgeUnavailableError(f"the forge's answer cannot be read: {error}") from error
