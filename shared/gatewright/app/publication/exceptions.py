"""Exceptions from rules about sinks: signed by an operator, for one sink and one rule, until they expire.

A sink without TLS needs ``sink_without_tls``, and one whose host has an address that is not public ``sink_private_address``.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from gatewright.app.publication.sinks import SinkEntry
from gatewright.contracts import PolicyException
from gatewright.egress.addresses import is_public_address
from gatewright.errors import DeniedError, MalformedError, StoreError
from gatewright.evidence.signed_documents import SignedKind
from gatewright.evidence.signing.keys import PublicKey, load_public
from gatewright.evidence.store.address import LOOPBACK

Rule = Literal["sink_without_tls", "sink_private_address"]
_MOST_BYTES: Final = 64 * 1024
#: A signed exception. Its subject is named after rule and sink.
EXCEPTION: Final = SignedKind(
    PolicyException,
    "urn:gatewright:policy-exception:v1",
    "bad_exception",
    lambda it: {f"{it.rule}/{it.sink}": hashlib.sha256(f"{it.rule}/{it.sink}".encode()).hexdigest()},
)


def needed_exceptions(sink: SinkEntry, url: str, now: datetime) -> tuple[str, ...]:
    """Return the sha256 of each exception that the sink at ``url`` needs now; none for one that breaks no rule.

    Raises:
        DeniedError: an exception is missing (the rule is the code), or has expired (``exception_expired``).
        MalformedError: a file is no exception (``bad_exception``).
        VerificationError: no key of ``exception_keys`` signed it.
        StoreError: the host cannot be resolved (``store_unreachable``).
    """
    rules = tuple(dict.fromkeys(_broken_rules(sink, url)))
    if not rules:
        return ()
    given = [_read_exception(path, [load_public(key) for key in sink.exception_keys]) for path in sink.exceptions]
    return tuple(_covering(rule, sink, given, now) for rule in rules)


def _broken_rules(sink: SinkEntry, url: str) -> Iterator[Rule]:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if not host or host in LOOPBACK:
        return
    if parts.scheme != "https":
        yield "sink_without_tls"
    try:
        found = socket.getaddrinfo(host, parts.port or 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StoreError(
            f"{sink.name}: the host cannot be resolved: {type(error).__name__}", code="store_unreachable"
        ) from None
    if not all(is_public_address(str(each[4][0])) for each in found):
        yield "sink_private_address"


def _covering(rule: Rule, sink: SinkEntry, given: Sequence[tuple[PolicyException, str]], now: datetime) -> str:
    """Return the digest of an exception from ``rule`` that applies now."""
    fitting = [(each, sha256) for each, sha256 in given if each.rule == rule and each.sink == sink.name]
    if not fitting:
        if rule == "sink_without_tls":
            raise DeniedError(f"the sink {sink.name} has no TLS, and no exception permits it", code="sink_without_tls")
        words = f"the sink {sink.name} has a private address, and no exception permits it"
        raise DeniedError(words, code="sink_private_address")
    try:
        last, sha256 = max(fitting, key=lambda each: datetime.fromisoformat(each[0].expires_at))
        expired = datetime.fromisoformat(last.expires_at) <= now
    except (ValueError, TypeError) as error:
        raise MalformedError(f"an exception for {sink.name} has no end with a zone", code="bad_exception") from error
    if expired:
        words = f"the exception of {last.owner} for the sink {sink.name} expired on {last.expires_at}"
        raise DeniedError(words, code="exception_expired")
    return sha256


def _read_exception(path: Path, trusted: Sequence[PublicKey]) -> tuple[PolicyException, str]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
        exception, _ = EXCEPTION.open(data, trusted)
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror or error}", code="bad_exception") from error
    return exception, hashlib.sha256(data).hexdigest()
