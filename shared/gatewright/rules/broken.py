"""A broken rule, before it becomes a gate's violation or a verification's finding."""

from __future__ import annotations

from typing import NamedTuple


class Broken(NamedTuple):
    """``code`` is stable, ``rule`` is a gate's name for it, ``path`` the affected path in the tree."""

    code: str
    rule: str
    detail: str
    path: bytes | None = None
