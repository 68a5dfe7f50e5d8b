"""make on the port: every question goes to the framework that the rule starts. Variables reach it through make."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.make.rules import recipe_lines
from gatewright.ecosystems.port import Framework, Instruments, Order, Sentinel, TreeFiles
from gatewright.ecosystems.shell import commands_of

_PROGRAMS = frozenset({"make", "gmake"})
_TARGETS = frozenset({"test", "check"})


@dataclass(frozen=True, slots=True)
class Make:
    """``make test``, through one of ``others``: as many as there are frameworks, so that the bundle names the real one."""

    other: Framework

    @property
    def name(self) -> str:
        """What the bundle records: the framework that tells the tests."""
        return self.other.name

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return bool(argv) and posixpath.basename(argv[0]) in _PROGRAMS

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``: the first recognised command of the recipe is one of this framework."""
        return await self._inner(argv, tree) is not None

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: Order) -> Instruments:
        """See ``Framework.instruments``."""
        return await self.other.instruments(await self._inner(argv, tree) or argv, tree, order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """See ``Framework.sentinel``."""
        return await self.other.sentinel(await self._inner(argv, tree) or argv, tree, draw)

    async def _inner(self, argv: Sequence[str], tree: TreeFiles) -> tuple[str, ...] | None:
        for words in await commands_of_make(argv, tree):
            if self.other.may_start(words) and await self.other.recognises(words, tree):
                return words
        return None


async def commands_of_make(argv: Sequence[str], tree: TreeFiles) -> tuple[tuple[str, ...], ...]:
    """What ``argv`` has make start at the top of the tree; nothing when it is no ``make test``."""
    if not argv or posixpath.basename(argv[0]) not in _PROGRAMS:
        return ()
    target = next((word for word in argv[1:] if word in _TARGETS), None)
    if target is None:
        return ()
    lines = await recipe_lines(tree, target)
    return tuple(command.words for line in lines for command in commands_of(line) if not command.folder)
