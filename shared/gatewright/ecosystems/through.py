"""Programs that start other commands (make, tox, nox): the framework that one of these starts answers every question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.port import Framework, Instruments, Replays, ReporterOrder, Sentinel, TreeFiles

#: The commands that a program starts on a tree, in their order; none where ``argv`` starts another program.
Commands = Callable[[Sequence[str], TreeFiles], Awaitable[tuple[tuple[str, ...], ...]]]

#: The started commands' variables -> those of the program, so that it passes them on.
HandOn = Callable[[Sequence[str], TreeFiles, Mapping[str, str]], Awaitable[Mapping[str, str]]]


async def as_they_are(argv: Sequence[str], tree: TreeFiles, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables unchanged, for a program that passes on its whole environment."""
    del argv, tree
    return variables


@dataclass(frozen=True, slots=True)
class Through:
    """``other``, started through a program: one object for each framework, so that the bundle names the real one."""

    other: Framework
    may_be: Callable[[Sequence[str]], bool]
    commands: Commands
    hand_on: HandOn = as_they_are

    @property
    def name(self) -> str:
        """Return the name that the bundle records: the framework that reports the tests."""
        return self.other.name

    @property
    def languages(self) -> frozenset[str]:
        """See ``Framework.languages``."""
        return self.other.languages

    @property
    def reports_files(self) -> bool:
        """See ``Framework.reports_files``."""
        return self.other.reports_files

    @property
    def package_files(self) -> tuple[str, ...]:
        """See ``Framework.package_files``."""
        return self.other.package_files

    @property
    def replays(self) -> Replays | None:
        """See ``Framework.replays``."""
        return self.other.replays

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return self.may_be(argv)

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``: the first recognised command is one of this framework."""
        return await self._inner(argv, tree) is not None

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        made = await self.other.instruments(await self._inner(argv, tree) or argv, tree, order)
        return Instruments(made.files, await self.hand_on(argv, tree, made.variables))

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """See ``Framework.sentinel``."""
        return await self.other.sentinel(await self._inner(argv, tree) or argv, tree, draw)

    async def _inner(self, argv: Sequence[str], tree: TreeFiles) -> tuple[str, ...] | None:
        for words in await self.commands(argv, tree):
            if self.other.may_start(words) and await self.other.recognises(words, tree):
                return words
        return None
