"""Whether a value stood in the changed files before: moving or removing a leaked key must stay possible."""

from __future__ import annotations

from collections.abc import Iterable

#: Different values that are looked for; each look reads everything. One more is taken for new.
MOST_LOOKS = 200


class EarlierValues:
    """What stood in ``contents``; a hostile change cannot make asking endless."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._contents = contents
        self._joined: bytes | None = None
        self._known: dict[bytes, bool] = {}

    def held(self, value: bytes) -> bool:
        """Whether ``value`` stood there; False, too, once MOST_LOOKS different ones have been asked for."""
        if value in self._known:
            return self._known[value]
        if len(self._known) == MOST_LOOKS:
            return False
        if self._joined is None:
            self._joined = b"\n".join(self._contents)
        self._known[value] = value in self._joined
        return self._known[value]
