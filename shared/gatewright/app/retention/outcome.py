"""The outcome of a removal: a bundle, a run, a dead letter, an artifact, a branch. It is gone, or a code gives the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ItemOutcome(Generic[T_co]):
    """``code`` is empty if ``item`` is gone, else why it stays. ``removed``: messages removed from the bus with it."""

    item: T_co
    removed: int = 0
    code: str = ""
    message: str = ""
