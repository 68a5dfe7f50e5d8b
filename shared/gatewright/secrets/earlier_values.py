"""Whether a value was already in the changed files: moving or removing a leaked key must stay possible."""

from __future__ import annotations

from collections.abc import Iterable

#: Maximum number of different values to search for; each search reads everything. Further values are taken as new.
MOST_LOOKS = 200


class EarlierValues:
    """The earlier content ``contents``; a hostile change cannot make the searches endless."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._contents = contents
        self._joined: bytes | None = None
        self._known: dict[bytes, bool] = {}

    def held(self, value: bytes) -> bool:
        """Return whether ``value`` was there; False, too, after MOST_LOOKS different values."""
        if value in self._known:
            return self._known[value]
        if len(self._known) == MOST_LOOKS:
            return False
        if self._joined is None:
            self._joined = b"\n".join(self._contents)
        self._known[value] = value in self._joined
        return self._known[value]
