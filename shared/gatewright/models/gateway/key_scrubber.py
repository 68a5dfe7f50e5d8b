"""Removal of a provider's key from all its output, even if the pieces of a stream split it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

_INSTEAD = b"[redacted:provider_key]"
#: A shorter key could appear in any text by chance; no provider has one.
_SHORTEST = 8
#: The length of a key's prefix that is searched before the rest is compared.
_SURE = 4


class KeyScrubber:
    """A scrubber for one reply, in pieces. Finds a key in plain, percent-encoded, base64, hexadecimal and JSON form."""

    def __init__(self, keys: Iterable[str]) -> None:
        forms = sorted({form for key in keys for form in _forms(key)}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, forms))) if forms else None  # noqa: TID251 - literals of our own
        self._starts = tuple(forms)
        self._kept = b""
        self.found = 0

    def whole(self, data: bytes) -> bytes:
        """``data`` without a key; not a piece of a stream."""
        if self._pattern is None:
            return data
        data, found = self._pattern.subn(_INSTEAD, data)
        self.found += found
        return data

    def text(self, words: str) -> str:
        """Return ``words`` without keys."""
        return self.whole(words.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def feed(self, chunk: bytes) -> bytes:
        """Return the text that is safe to pass on; a possible prefix of a key waits for the next piece."""
        data = self.whole(self._kept + chunk)
        keep = self._beginning(data)
        self._kept = data[len(data) - keep :]
        return data[: len(data) - keep]

    def finish(self) -> bytes:
        """Return the waiting text, at the end of the stream."""
        kept, self._kept = self._kept, b""
        return kept

    def _beginning(self, data: bytes) -> int:
        """Return how many of the last bytes are the beginning of a key."""
        return max((_overlap(data, form) for form in self._starts), default=0)


def _overlap(data: bytes, form: bytes) -> int:
    """Return how many of the last bytes of ``data`` are a proper prefix of ``form``."""
    window = data[max(len(data) - len(form) + 1, 0) :]
    place = window.find(form[:_SURE])
    while place >= 0:
        if form.startswith(window[place:]):
            return len(window) - place
        place = window.find(form[:_SURE], place + 1)
    return next((length for length in range(_SURE - 1, 0, -1) if window.endswith(form[:length])), 0)


def _forms(key: str) -> Iterable[bytes]:
    if len(key) < _SHORTEST:
        return
    raw = key.encode()
    yield raw
    yield quote(key, safe="").encode()
    yield json.dumps(key)[1:-1].encode()
    yield base64.b64encode(raw).rstrip(b"=")
    yield base64.b64encode(b"Bearer " + raw).rstrip(b"=")
    yield raw.hex().encode()
