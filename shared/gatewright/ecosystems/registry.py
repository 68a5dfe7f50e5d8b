"""The frameworks that are known, in the order in which they are asked; a new ecosystem appends its own here."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.ecosystems.port import Framework, TreeFiles
from gatewright.ecosystems.python.pytest_framework import Pytest
from gatewright.ecosystems.python.unittest_framework import Unittest

FRAMEWORKS: tuple[Framework, ...] = (Pytest(), Unittest())


def may_be_tests(argv: Sequence[str]) -> bool:
    """Whether a framework might be started by ``argv``; no tree is looked at."""
    return any(framework.may_start(argv) for framework in FRAMEWORKS)


async def recognise(argv: Sequence[str], tree: TreeFiles) -> Framework | None:
    """The first framework that ``argv`` starts on ``tree``; None when none is known to."""
    for framework in FRAMEWORKS:
        if framework.may_start(argv) and await framework.recognises(argv, tree):
            return framework
    return None
