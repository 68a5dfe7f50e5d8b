"""The frameworks that are known, in the order in which they are asked; a new ecosystem appends its own here."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.ecosystems.port import Framework, TreeFiles

FRAMEWORKS: tuple[Framework, ...] = ()


async def recognise(argv: Sequence[str], tree: TreeFiles) -> Framework | None:
    """The first framework that ``argv`` starts on ``tree``; None when none is known to."""
    for framework in FRAMEWORKS:
        if await framework.recognises(argv, tree):
            return framework
    return None
