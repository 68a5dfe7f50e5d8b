"""Translation of NATS replies: errors as BusError with a reason, and decoded answers of the JetStream API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
import nats.errors

from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.errors import BusError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.host_errors import BUS_FULL

#: The consumer, or the stream, does not exist.
MISSING: Final = frozenset({"jetstream_10014", "jetstream_10059"})
#: Replies of a cluster's servers while they elect a leader: nothing was done, and a leader will be there soon.
_ELECTING: Final = frozenset({10008, 10009})
#: The account or the server has no space left for any stream.
_NO_RESOURCES: Final = frozenset({10002, 10023})
#: The stream has reached its own limits. Only the text of the server's reply shows it.
_STORE_FAILED: Final = 10077
_NO_MORE: Final = ("maximum bytes exceeded", "maximum messages exceeded")
#: The same of one subject: a publisher's part of a queue.
_NO_MORE_OF_SUBJECT: Final = "maximum messages per subject exceeded"


class _ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class ApiReply(msgspec.Struct):
    """The fields that every answer of the JetStream API can have; unknown fields are ignored."""

    error: _ApiError | None = None


class StreamLimits(msgspec.Struct):
    """The limits of a stream; -1 means no limit."""

    max_bytes: int = -1
    max_msgs: int = -1
    num_replicas: int = 1


class StreamState(msgspec.Struct):
    """The content of a stream. ``subjects``: messages by subject, if the request had a ``subjects_filter``."""

    messages: int = 0
    bytes: int = 0
    last_seq: int = 0
    first_ts: datetime = datetime.fromtimestamp(0, UTC)
    subjects: dict[str, int] | None = None


class StreamPeer(msgspec.Struct):
    """A follower of a replicated stream."""

    name: str = ""
    current: bool = False
    offline: bool = False


class StreamCluster(msgspec.Struct):
    """The servers that hold a replicated stream."""

    name: str = ""
    leader: str = ""
    replicas: tuple[StreamPeer, ...] = ()


class StreamInfoReply(ApiReply):
    """The answer to ``STREAM.INFO``. ``total``: subjects that there are, of which the state lists one page."""

    config: StreamLimits = msgspec.field(default_factory=StreamLimits)
    state: StreamState = msgspec.field(default_factory=StreamState)
    cluster: StreamCluster | None = None
    total: int = 0


class StreamNamesReply(ApiReply):
    """The answer to ``STREAM.NAMES``: one page of ``total`` names."""

    total: int = 0
    streams: tuple[str, ...] | None = None


class StreamRemovalReply(ApiReply):
    """The answer to ``STREAM.PURGE`` and ``STREAM.MSG.DELETE``; ``purged``: messages that a purge has removed."""

    success: bool = False
    purged: int = 0


ReplyT = TypeVar("ReplyT", bound=ApiReply)


@contextlib.contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Errors of the NATS client leave as BusError; ``doing`` opens the message."""
    try:
        yield
    except nats.errors.NoRespondersError as error:
        raise BusError(f"{doing}: no process answers", code=NO_RESPONDERS) from error
    except TimeoutError as error:
        raise BusError(f"{doing}: no answer in time", code=NO_ANSWER) from error
    except (nats.errors.Error, OSError) as error:
        raise BusError(f"{doing}: {str(error) or type(error).__name__}") from error


def decode_reply(data: bytes, kind: type[ReplyT], call: str) -> ReplyT:
    """An answer of JetStream as ``kind``; raises BusError when it is an error, or no answer at all."""
    try:
        answer = read_json(data, kind)
    except UnreadableDocumentError as error:
        raise BusError(f"JetStream gave no usable answer to {call}: {error}") from error
    if answer.error is not None:
        raise BusError(f"JetStream refused {call}: {answer.error.description}", code=_error_code(answer.error))
    return answer


def _error_code(error: _ApiError) -> str:
    number = error.err_code
    if number in _ELECTING:
        return NO_RESPONDERS
    if number == _STORE_FAILED and error.description.endswith(_NO_MORE_OF_SUBJECT):
        return "queue_full"
    full = number in _NO_RESOURCES or (number == _STORE_FAILED and error.description.endswith(_NO_MORE))
    return BUS_FULL if full else f"jetstream_{number}"


def is_stream_full(error: BusError) -> bool:
    """Return whether a stream's own limits refused a message, rather than the storage of its server."""
    return error.reason == BUS_FULL and error.message.endswith(_NO_MORE)
