"""What became of what was to go: a bundle, a run, a dead letter, an artifact, a branch. It is gone, or a code says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ItemOutcome(Generic[T_co]):
    """``code`` is empty when ``item`` is gone, else why it was left. ``removed``: messages of the bus that went with it."""

    item: T_co
    removed: int = 0
    code: str = ""
    message: str = ""
