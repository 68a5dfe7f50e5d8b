"""A broken rule, before it is a gate's violation or a verification's finding."""

from __future__ import annotations

from typing import NamedTuple


class Broken(NamedTuple):
    """``code`` is stable, ``rule`` is a gate's name for it, ``path`` the path in the tree that it is about."""

    code: str
    rule: str
    detail: str
    path: bytes | None = None
