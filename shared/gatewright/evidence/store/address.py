"""URLs of stores (``s3://BUCKET[/PREFIX]``, ``https://HOST[/PATH]``), and of bundles with a run id appended. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from gatewright.errors import StoreError

Scheme = Literal["s3", "https", "http"]
_RUN = re.compile(r"run-[0-9a-f]{20}")  # noqa: TID251 - linear: of a fixed length
#: Legal names of a bucket and of one part of a prefix: nothing that needs escaping in a URL.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # noqa: TID251 - linear: one class between two
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,127}")  # noqa: TID251 - linear: one class
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Location of bundles: ``authority`` is the bucket, or the host with its port; ``prefix`` has no slash at either end."""

    scheme: Scheme
    authority: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}" + (f"/{self.prefix}" if self.prefix else "")

    def key(self, name: str) -> str:
        """Return the full name of the object ``name``."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def run(self, run_id: str) -> str:
        """Return the URL of the bundle of a run."""
        return f"{self}/{run_id}"


def is_address(given: str | None) -> bool:
    """Return whether a command-line argument is a store URL instead of a folder or a run of this host."""
    return given is not None and given.partition("://")[0] in {"s3", "https", "http"} and "://" in given


def parse_store(given: str, *, any_http: bool = False) -> StoreAddress:
    """Parse the URL of a store; ``any_http``: other hosts than this one may be without TLS.

    Raises:
        StoreError: it is no valid URL (``store_address_invalid``).
    """
    try:
        parts = urlsplit(given)
        parts.port  # noqa: B018 - raises for one that is none
    except ValueError:
        raise _invalid("it is no address") from None
    segments = tuple(part for part in parts.path.split("/") if part)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise _invalid("an address holds no user, query or fragment; stores.json refers to credentials")
    if len(segments) > _MOST_PARTS or not all(_PART.fullmatch(part) for part in segments):
        raise _invalid("the parts of its path are of letters, digits and . _ = -")
    prefix = "/".join(segments)
    match parts.scheme:
        case "s3" if _BUCKET.fullmatch(parts.netloc):
            return StoreAddress("s3", parts.netloc, prefix)
        case "https" if parts.hostname:
            return StoreAddress("https", parts.netloc, prefix)
        case "http" if parts.hostname in LOOPBACK or (any_http and parts.hostname):
            return StoreAddress("http", parts.netloc, prefix)
    raise _invalid("it is s3://BUCKET[/PREFIX] or https://HOST[/PATH]")


def parse_run(given: str) -> tuple[StoreAddress, str]:
    """Parse ``STORE/RUN`` into the store and the run id.

    Raises:
        StoreError: it is no valid URL (``store_address_invalid``).
    """
    place, _, run_id = given.rstrip("/").rpartition("/")
    if not is_run(run_id):
        raise _invalid("the address of a bundle ends with the whole id of its run: s3://BUCKET/PREFIX/run-...")
    return parse_store(place), run_id


def is_run(name: str) -> bool:
    """Return whether ``name`` is a complete run id."""
    return _RUN.fullmatch(name) is not None


def _invalid(why: str) -> StoreError:
    # The message omits the URL, which may contain a password.
    return StoreError(f"the address of the store cannot be used: {why}", code="store_address_invalid")
