"""Operator settings for streams: the bytes that each holds, and the days after which expendable messages expire.

Written as ``RESULTS=2GiB INTAKE=64MiB UPLOADS_payments=1GiB`` and ``DEAD=90``: the name of a stream, or INTAKE and UPLOADS
for those of every publisher without its own entry. Impossible values are refused here, before any request to a server.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gatewright.bus.topology import LEDGER, STREAMS, StreamSpec, intake_publisher, is_of_ledger, uploader_of
from gatewright.errors import ConfigurationError

#: The environment variables of these settings.
SIZES = "GATEWRIGHT_STREAM_BYTES"
DAYS = "GATEWRIGHT_STREAM_DAYS"

_SIZE = re.compile(r"([0-9]{1,12})(MiB|GiB|TiB)\Z")  # noqa: TID251 - the operator's own text
_DAYS = re.compile(r"([0-9]{1,5})\Z")  # noqa: TID251 - the operator's own text
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_NAME = re.compile(r"(INTAKE|UPLOADS)_[a-z0-9][a-z0-9-]{0,31}\Z")  # noqa: TID251 - the operator's own text
#: Those of every publisher.
_KINDS = ("INTAKE", "UPLOADS")
#: Two messages of full size, for streams that the topology gives no least size.
_LEAST = 16 << 20
#: More than any volume.
_MOST = 1 << 50
_DAY = 86_400.0
#: The streams that may expire messages, with the least age in days: dead letters wait for people, uploads for their run.
_FORGETTABLE = {"DEAD": 30, "UPLOADS": 1}


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """``sizes`` in bytes and ``days``, by the names of streams or of their kinds."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: str, days: str) -> Self:
        """Parse the two variables. Raises ConfigurationError that names the wrong one."""
        try:
            found = read_sizes(sizes)
        except ValueError as error:
            raise ConfigurationError(f"{SIZES}: {error}") from None
        try:
            return cls(found, read_days(days))
        except ValueError as error:
            raise ConfigurationError(f"{DAYS}: {error}") from None

    def apply_to(self, stream: StreamSpec) -> StreamSpec:
        """Return the stream with the operator's settings. A configured size is never reduced for lack of storage."""
        size, days = self._of(self.sizes, stream.name), self._of(self.days, stream.name)
        sized = stream if size is None else dataclasses.replace(stream, max_bytes=size, least_bytes=size)
        return sized if days is None else dataclasses.replace(sized, keep_seconds=days * _DAY)

    def _of(self, values: Mapping[str, int], name: str) -> int | None:
        return values.get(name, values.get(_kind(name)))


def read_sizes(text: str) -> dict[str, int]:
    """Parse ``RESULTS=2GiB INTAKE=64MiB``. Raises ValueError with a message for the user."""
    sizes = {}
    for name, value in _pairs(text):
        found = _SIZE.match(value)
        if found is None:
            raise ValueError(f"{name}={value[:20]} is not a size: use MiB, GiB or TiB, as in {name}=512MiB")
        sizes[name] = int(found[1]) * _UNITS[found[2]]
        least = next((each.least_bytes for each in STREAMS if each.name == name and each.least_bytes > 0), _LEAST)
        if not least <= sizes[name] <= _MOST:
            raise ValueError(
                f"{name} needs {least >> 20}MiB at the least, for messages of full size, and {_MOST >> 40}TiB at most"
            )
    return sizes


def read_days(text: str) -> dict[str, int]:
    """Parse ``DEAD=90 UPLOADS=3``. Raises ValueError with a message for the user."""
    days = {}
    for name, value in _pairs(text):
        least = _FORGETTABLE.get(_kind(name))
        if least is None:
            kinds = " and ".join(_FORGETTABLE)
            raise ValueError(
                f"{name} forgets nothing by age: work that waits is not lost, runs are answered for, artifacts are written "
                f"once; only {kinds} do"
            )
        if _DAYS.match(value) is None or int(value) < least:
            raise ValueError(f"{name}={value[:20]}: whole days, {least} at the least")
        days[name] = int(value)
    return days


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in text.replace(",", " ").split()]
    known = (*_KINDS, *(stream.name for stream in STREAMS))
    for name, equals, _ in pairs:
        if not equals or (name not in known and _NAME.match(name) is None):
            raise ValueError(
                f"{name[:40]!r} is not a stream: use NAME=VALUE with {', '.join(known)}, or with a publisher's stream"
            )
    names = [name for name, _, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a stream is named twice")
    return [(name, value) for name, _, value in pairs]


def _kind(name: str) -> str:
    if intake_publisher(name) is not None:
        return "INTAKE"
    if is_of_ledger(name):
        return LEDGER
    return "UPLOADS" if uploader_of(name) is not None else name
