"""Validation of subjects, keys, header values and payloads, and matching of subjects against patterns.

Both backends validate here: a NATS server silently stores a message under ``gw.run.*``, and a line break in a subject or a
header would be a protocol command. Names from outside (task ids, run ids) reach the bus through these functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from gatewright.errors import ConfigurationError, MalformedError

#: Payload and headers of one message; the limit of the server too.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
#: Bytes of a message reserved for headers.
HEADER_BYTES = 4096
#: Bytes of that for a caller's own headers; the bus needs the rest.
_CALLERS_HEADER_BYTES = 3072

_TOKEN = re.compile(r"[A-Za-z0-9_$=/+-]{1,128}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_POOL = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_KEY = re.compile(r"[A-Za-z0-9_=/-]+(\.[A-Za-z0-9_=/-]+)*\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_HEADER = re.compile(r"[!-~]{1,128}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]{0,1022}[!-~])?\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_LONGEST_SUBJECT = 512
_LONGEST_KEY = 256


def check_subject(subject: str) -> str:
    """``subject`` itself when a message may be published under it; raises MalformedError (code ``bad_subject``)."""
    return _check_subject(subject, wildcards=False)


def check_pattern(pattern: str) -> str:
    """``pattern`` itself when it is a subject with or without ``*`` and a final ``>``; raises MalformedError."""
    return _check_subject(pattern, wildcards=True)


def is_pattern(subject: str) -> bool:
    """Return whether ``subject`` contains a wildcard."""
    return any(token in ("*", ">") for token in subject.split("."))


def check_key(key: str) -> str:
    """``key`` itself when the key-value bucket takes it; raises MalformedError (code ``bad_key``)."""
    if len(key) > _LONGEST_KEY or not _KEY.match(key):
        raise MalformedError(f"not a key of the bus: {key[:80]!r}", code="bad_key")
    return key


def check_service(name: str) -> str:
    """``name`` itself when it can name a service or a connection; raises ConfigurationError."""
    if not _NAME.match(name):
        raise ConfigurationError(f"not a name for a service on the bus: {name[:80]!r}")
    return name


def check_pool(name: str) -> str:
    """``name`` itself when it can name a pool of a role; raises MalformedError (code ``bad_pool``)."""
    if not _POOL.match(name):
        raise MalformedError(f"not a name of a pool: {name[:80]!r}", code="bad_pool")
    return name


def check_schema(name: str) -> str:
    """Return ``name`` if it is valid in the schema header; raises MalformedError (``bad_header``)."""
    if not _HEADER.match(name):
        raise MalformedError(f"not a schema name: {name[:80]!r}", code="bad_header")
    return name


def check_size(data: bytes, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    """``data`` itself when it fits into a message of ``limit`` bytes with its headers.

    Raises MalformedError (code ``message_too_large``) before the server would: it closes the connection of who sends more.
    """
    most = limit - HEADER_BYTES
    if len(data) > most:
        raise MalformedError(f"a message holds at most {most} bytes, not {len(data)}", code="message_too_large")
    return data


def header_id(message_id: str) -> str:
    """Return the header form of a message id: the id itself if it is plain, else its sha256.

    Ids contain task ids of other systems. The client would trim blanks and replace line breaks, so two tasks whose ids
    differ only in these would be confused.
    """
    if _HEADER.match(message_id):
        return message_id
    return "sha256:" + hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """``headers`` as a dictionary when a caller may set them: one line of printable ASCII each, none that the server obeys.

    Raises MalformedError (code ``bad_header``).
    """
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.match(name) or name.lower().startswith("nats-") or not _HEADER_VALUE.match(value):
            raise MalformedError(f"not a header for a message: {name[:80]!r}", code="bad_header")
    if sum(len(name) + len(value) for name, value in (headers or {}).items()) > _CALLERS_HEADER_BYTES:
        raise MalformedError("the headers of a message are too long together", code="bad_header")
    return dict(headers or {})


def matches(pattern: str, subject: str) -> bool:
    """Return whether ``pattern`` (NATS wildcards) matches ``subject``."""
    wanted = pattern.split(".")
    tokens = subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        return len(tokens) > len(wanted) and _equal(wanted, tokens[: len(wanted)])
    return len(tokens) == len(wanted) and _equal(wanted, tokens)


def _equal(wanted: list[str], tokens: list[str]) -> bool:
    return all(want in ("*", token) for want, token in zip(wanted, tokens, strict=True))


def _check_subject(text: str, *, wildcards: bool) -> str:
    tokens = text.split(".")
    if wildcards and tokens[-1] == ">" and len(tokens) > 1:
        tokens.pop()
    plain = [word for word in tokens if not (wildcards and word == "*")]
    if len(text) > _LONGEST_SUBJECT or not all(map(_TOKEN.match, plain)):
        raise MalformedError(f"not a subject of the bus: {text[:80]!r}", code="bad_subject")
    return text
