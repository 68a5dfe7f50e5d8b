"""A cassette: calls as they were recorded, found again by the digest of the canonical request and their place among equal ones.

A cassette that plays never goes live: a request that it does not have is a miss, and the call fails with the difference.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from gatewright.contracts.strict_json import pointer
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, MalformedError
from gatewright.foreign_documents import read_json
from gatewright.models.prices import TokenUsage
from gatewright.models.records import sha256, without_secrets
from gatewright.secrets import SecretScanner, redact_output

FORMAT: Final = "gatewright-cassette/1"
#: Bytes of a cassette that is read; what is recorded has less (``GatewayLimits.recorded_bytes``).
LARGEST: Final = 72 << 20
#: Bytes of its first line.
LARGEST_HEAD: Final = 4096
#: Why a cassette holds no calls: the operator's policy keeps no texts, or there were too many bytes.
LeftOut = Literal["", "texts_not_kept", "too_large"]


class Recorded(Document):
    """One call. ``request`` is the canonical request, ``reply`` what the client got, in the pieces in which it came.

    ``whole`` is false for a reply that ended before its end, ``withheld`` true for one that is left out because it held a
    secret. ``refused`` is the reason of a call that the gateway did not let pass: it is never played, but refused again. A
    piece that is no UTF-8 stands in ``base64:``.
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
    refused: str = ""
    withheld: bool = False

    @property
    def usage(self) -> TokenUsage:
        return TokenUsage(self.input_tokens, self.cached_tokens, self.cache_written_tokens, self.output_tokens)

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The reply as bytes."""
        return tuple(_piece(each) for each in self.reply)


class CassetteHead(Document):
    """The first line. ``sha256`` is the digest of all lines after it, ``task`` the task of the calls.

    ``incomplete``: the work was interrupted, so that calls may be missing after the last one. ``brief`` is the version of
    the worker's order that its agent or model was given; a recording is played with that version.
    """

    format: Literal["gatewright-cassette/1"]
    sha256: str
    task: str = ""
    left_out: LeftOut = ""
    incomplete: bool = False
    brief: Annotated[int, msgspec.Meta(ge=1)] = 1


class CassetteWriter:
    """Records all calls of one task, or none, with the reason. Not thread-safe.

    ``texts`` false: no text is kept. ``most_bytes`` bounds the recorded calls.
    """

    def __init__(self, task: str = "", *, texts: bool = True, most_bytes: int = LARGEST) -> None:
        self._task = task
        self._most_bytes = most_bytes
        self._left_out: LeftOut = "" if texts else "texts_not_kept"
        self._calls: list[Recorded] = []
        self._bytes = 0
        #: Whether the work was interrupted: more calls would then have followed.
        self.incomplete = False
        #: See ``CassetteHead.brief``.
        self.brief = 1

    @property
    def calls(self) -> tuple[Recorded, ...]:
        """Return the calls recorded so far."""
        return tuple(self._calls)

    def record(self, call: Recorded) -> None:
        """Record ``call``, unless nothing is kept."""
        if self._left_out:
            return
        self._bytes += len(_encode_call(call))
        self._calls.append(call)
        if self._bytes > self._most_bytes:
            self._leave_out()

    def as_jsonl(self, scanner: SecretScanner | None = None) -> bytes:
        """Return the recording as a file: a head with the digest of the lines, and a line per call.

        ``scanner`` removes secrets from requests, which are still matched; a reply with one is left out, and replays as
        interrupted. Takes long then.
        """
        calls: Iterable[Recorded] = self._calls
        if scanner is not None:
            calls = [_without_secrets(call, scanner) for call in self._calls]
        lines = b"".join(map(_encode_call, calls))
        if len(lines) > LARGEST - LARGEST_HEAD:
            self._leave_out()
            lines = b""
        head = CassetteHead(
            format=FORMAT,
            sha256=sha256(lines),
            task=self._task,
            left_out=self._left_out,
            incomplete=self.incomplete,
            brief=self.brief,
        )
        return msgspec.json.encode(head) + b"\n" + lines

    def _leave_out(self) -> None:
        self._left_out = "too_large"
        self._calls.clear()


class Cassette:
    """Replays ``calls``. ``task`` names their task. Not thread-safe."""

    def __init__(self, calls: tuple[Recorded, ...] = (), head: CassetteHead | None = None) -> None:
        self.calls = calls
        self.head = head or CassetteHead(format=FORMAT, sha256=sha256(b"".join(map(_encode_call, calls))))
        self._asked: Counter[str] = Counter()
        self._by_digest: defaultdict[str, list[Recorded]] = defaultdict(list)
        for call in calls:
            if not call.refused:
                self._by_digest[call.request_sha256].append(call)

    @classmethod
    def read(cls, data: bytes) -> Cassette:
        """A cassette that plays ``data``. Raises MalformedError (``cassette_invalid``)."""
        try:
            head, calls = _parse_cassette(data)
        except ValueError as error:
            raise MalformedError(f"no cassette: {error}", code="cassette_invalid") from None
        return cls(calls, head)

    @property
    def sha256(self) -> str:
        """The digest of what it plays, as its file states it."""
        return self.head.sha256

    @cached_property
    def _playable(self) -> tuple[Recorded, ...]:
        return tuple(call for call in self.calls if not call.refused)

    @property
    def left(self) -> int:
        """Return how many of the recorded calls were not requested yet."""
        return len(self._playable) - sum(min(count, len(self._by_digest.get(each, ()))) for each, count in self._asked.items())

    def find(self, request: bytes) -> Recorded | None:
        """The reply to a canonical request: to the n-th equal one the n-th that was recorded. None for what is not there."""
        digest = sha256(request)
        place, same = self._asked[digest], self._by_digest.get(digest, [])
        if place >= len(same):
            return None
        self._asked[digest] += 1
        return same[place]

    def miss(self, request: bytes) -> DeniedError:
        """Return the error for a missing request, with the first difference to the nearest one. Takes long: use a thread."""
        here = sum(self._asked.values())
        near = sorted(enumerate(self._playable), key=lambda pair: abs(pair[0] - here))[:COMPARED]
        found = nearest_difference(request, [call.request.encode("utf-8", "surrogatepass") for _, call in near])
        words = f"nothing is recorded{f' of {self.head.task}' if self.head.task else ''}" if found is None else found.words
        if self.head.incomplete:
            words = f"the recording is incomplete, its work was ended early; {words}"
        return DeniedError(f"the cassette has no such call: {words}", code="cassette_miss")


def _parse_cassette(data: bytes) -> tuple[CassetteHead, tuple[Recorded, ...]]:
    """The head and the calls of a file. Raises ValueError."""
    first, _, rest = data.partition(b"\n")
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    head = read_json(first, CassetteHead)
    if head.sha256 != sha256(rest):
        raise ValueError("its lines are not those that it was written with")
    calls = tuple(read_json(line, Recorded) for line in rest.splitlines())
    for call in calls:
        _ = call.pieces
    return head, calls


def _encode_call(call: Recorded) -> bytes:
    return msgspec.json.encode(call) + b"\n"


def _without_secrets(call: Recorded, scanner: SecretScanner) -> Recorded:
    request = redact_output("request", call.request.encode("utf-8", "surrogatepass"), scanner)
    reply = without_secrets("reply", b"".join(call.pieces), scanner)
    call = msgspec.structs.replace(call, request=request.data.decode("utf-8", "replace"))
    if reply.redactions:
        call = msgspec.structs.replace(call, reply=(), whole=False, withheld=True)
    # The file is scanned again as written. Text that only looks like a secret because of its escapes must not be cut then.
    if redact_output("call", _encode_call(call), scanner).redactions:
        call = msgspec.structs.replace(call, request="", reply=(), whole=False, withheld=True)
    return call


def as_piece(data: bytes) -> str:
    """A piece of a reply as text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
    return "base64:" + base64.b64encode(data).decode() if text.startswith("base64:") else text


def _piece(text: str) -> bytes:
    return base64.b64decode(text[7:], validate=True) if text.startswith("base64:") else text.encode()


# The difference of two canonical requests: the nearest recorded one, and the first differing place. Bounded in time and size.
# Pure.

#: Recorded requests that are worth comparing: those next to the place that was reached.
COMPARED = 200
#: Characters shown of each value, around the first that differs.
_SHOWN = 120
_ABSENT = object()


class RequestDifference(NamedTuple):
    """``pointer`` leads into the canonical request; the values are cut around the first character that differs."""

    pointer: str
    recorded: str
    asked: str

    @property
    def words(self) -> str:
        return f"the nearest recorded request differs at {self.pointer or '/'}: recorded {self.recorded}, asked {self.asked}"


def nearest_difference(asked: bytes, recorded: Sequence[bytes]) -> RequestDifference | None:
    """Return the first difference to the recorded request that shares most with ``asked``. None without a recording."""
    wanted = dict(_leaves(json.loads(asked)))
    best: tuple[int, dict[tuple[str | int, ...], Any]] | None = None
    for each in recorded:
        try:
            leaves = dict(_leaves(json.loads(each)))
        except ValueError:  # more than a word was removed from it
            continue
        shared = sum(1 for path, value in wanted.items() if leaves.get(path, _ABSENT) == value) - abs(len(leaves) - len(wanted))
        if best is None or shared > best[0]:
            best = (shared, leaves)
    if best is None:
        return None
    leaves = best[1]
    for path in (*wanted, *leaves):
        one, other = leaves.get(path, _ABSENT), wanted.get(path, _ABSENT)
        if one != other:
            return RequestDifference(pointer(path), *_shorten_both(one, other))
    return RequestDifference("", "the same request, fewer times", "once more")


def _leaves(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every leaf value with its path, in the order of the document."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict) and node:
            pending += [((*path, name), child) for name, child in reversed(node.items())]
        elif isinstance(node, list) and node:
            pending += [((*path, index), node[index]) for index in range(len(node) - 1, -1, -1)]
        else:
            yield path, node


def _shorten_both(one: Any, other: Any) -> tuple[str, str]:
    first, second = _as_text(one), _as_text(other)
    same = 0
    for char, opposite in zip(first, second, strict=False):
        if char != opposite:
            break
        same += 1
    start = max(same - _SHOWN // 3, 0)
    return _cut(first, start), _cut(second, start)


def _as_text(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return ("..." if start else "") + shown + ("..." if start + _SHOWN < len(text) else "")
