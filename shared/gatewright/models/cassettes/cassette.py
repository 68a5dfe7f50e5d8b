"""A cassette: calls as they were recorded, found again by the digest of the canonical request and their place among equal ones.

A cassette that plays never goes live: a request that it does not have is a miss, and the call fails with the difference.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, MalformedError
from gatewright.models.cassettes.difference import COMPARED, nearest_difference
from gatewright.models.prices import TokenUsage
from gatewright.models.records import sha256, without_secrets
from gatewright.secrets import SecretScanner, redact_output

FORMAT: Final = "gatewright-cassette/1"
#: Bytes of a cassette that is read.
LARGEST = 512 << 20


class Recorded(Document):
    """One call. ``request`` is the canonical request, ``reply`` what the client got, in the pieces in which it came.

    ``whole`` is false for a reply that ended before its end. A piece that is no UTF-8 stands in ``base64:``.
    """

    request_sha256: str
    request: str
    status: int
    content_type: str
    reply: tuple[str, ...]
    whole: bool
    model_used: str
    provider: str
    input_tokens: int
    cached_tokens: int
    cache_written_tokens: int
    output_tokens: int

    @property
    def usage(self) -> TokenUsage:
        return TokenUsage(self.input_tokens, self.cached_tokens, self.cache_written_tokens, self.output_tokens)

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The reply as bytes."""
        return tuple(_piece(each) for each in self.reply)


class _Head(Document):
    format: Literal["gatewright-cassette/1"]
    sha256: str


class Cassette:
    """``Cassette()`` records; ``Cassette.read(...)`` plays. Not for use by several threads."""

    def __init__(self, calls: tuple[Recorded, ...] | None = None) -> None:
        self._played = calls
        self._recorded: list[Recorded] = []
        self._asked: Counter[str] = Counter()
        self._by_digest: defaultdict[str, list[Recorded]] = defaultdict(list)
        for call in calls or ():
            self._by_digest[call.request_sha256].append(call)

    @classmethod
    def read(cls, data: bytes) -> Cassette:
        """A cassette that plays ``data``. Raises MalformedError (``cassette_invalid``)."""
        try:
            return cls(_parsed(data))
        except (ValueError, msgspec.DecodeError) as error:
            raise MalformedError(f"no cassette: {error}", code="cassette_invalid") from None

    @classmethod
    def read_file(cls, path: Path) -> Cassette:
        """Raises MalformedError (``cassette_invalid``) for a file that cannot be read, too."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise MalformedError(f"the cassette {path} cannot be read: {error.strerror}", code="cassette_invalid") from error
        return cls.read(data)

    @property
    def plays(self) -> bool:
        return self._played is not None

    @property
    def sha256(self) -> str | None:
        """The digest of what it plays, as its file states it; None for one that records."""
        return sha256(self._lines(self._played)) if self._played is not None else None

    @property
    def left(self) -> int:
        """How many of the recorded calls were not asked for yet."""
        return len(self._played or ()) - sum(min(count, len(self._by_digest[each])) for each, count in self._asked.items())

    def record(self, call: Recorded) -> None:
        self._recorded.append(call)

    def find(self, request: bytes) -> Recorded | None:
        """The reply to a canonical request: to the n-th equal one the n-th that was recorded. None for what is not there."""
        digest = sha256(request)
        place, same = self._asked[digest], self._by_digest.get(digest, [])
        if place >= len(same):
            return None
        self._asked[digest] += 1
        return same[place]

    def miss(self, request: bytes) -> DeniedError:
        """What to say of a request that it does not have: the first difference to the nearest one. Runs long: use a thread."""
        here = sum(self._asked.values())
        near = sorted(enumerate(self._played or ()), key=lambda pair: abs(pair[0] - here))[:COMPARED]
        found = nearest_difference(request, [call.request.encode("utf-8", "surrogatepass") for _, call in near])
        words = "nothing is recorded" if found is None else found.words
        return DeniedError(f"the cassette has no such call: {words}", code="cassette_miss")

    def as_jsonl(self, scanner: SecretScanner | None = None) -> bytes:
        """What was recorded, as the one form of file that there is: a head with the digest of the lines, and a line a call.

        With ``scanner`` secrets are taken out of requests, which are matched all the same; a reply with one is left out, and
        plays as one that broke off. Runs long then.
        """
        calls = self._recorded if scanner is None else [_without_secrets(call, scanner) for call in self._recorded]
        lines = self._lines(calls)
        return msgspec.json.encode(_Head(format=FORMAT, sha256=sha256(lines))) + b"\n" + lines

    @staticmethod
    def _lines(calls: tuple[Recorded, ...] | list[Recorded]) -> bytes:
        return b"".join(msgspec.json.encode(call) + b"\n" for call in calls)


def _parsed(data: bytes) -> tuple[Recorded, ...]:
    """The calls of a file. Raises ValueError, ``msgspec.DecodeError``."""
    head, _, rest = data.partition(b"\n")
    if len(data) > LARGEST:
        raise ValueError("it is too large")
    if msgspec.json.decode(head, type=_Head).sha256 != sha256(rest):
        raise ValueError("its lines are not those that it was written with")
    calls = tuple(msgspec.json.decode(line, type=Recorded) for line in rest.splitlines())
    for call in calls:
        _ = call.pieces
    return calls


def _without_secrets(call: Recorded, scanner: SecretScanner) -> Recorded:
    request = redact_output("request", call.request.encode(), scanner)
    reply = without_secrets("reply", b"".join(call.pieces), scanner)
    call = msgspec.structs.replace(call, request=request.data.decode())
    return msgspec.structs.replace(call, reply=(), whole=False) if reply.redactions else call


def as_piece(data: bytes) -> str:
    """A piece of a reply as text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
    return "base64:" + base64.b64encode(data).decode() if text.startswith("base64:") else text


def _piece(text: str) -> bytes:
    return base64.b64decode(text[7:], validate=True) if text.startswith("base64:") else text.encode()
