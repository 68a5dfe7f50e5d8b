"""The known frameworks in the order in which they are tried; a new ecosystem appends its own here."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.c.ctest_framework import CTEST
from gatewright.ecosystems.c.meson_framework import MESON_TEST
from gatewright.ecosystems.go.framework import GO_TEST
from gatewright.ecosystems.hatch.framework import commands_of_hatch, is_hatch, why_hatch_is_unproven
from gatewright.ecosystems.java.frameworks import GRADLE, MAVEN
from gatewright.ecosystems.make.framework import commands_of_make, is_make
from gatewright.ecosystems.node.frameworks import NODE_FRAMEWORKS, NodeTests
from gatewright.ecosystems.nox.framework import commands_of_nox, is_nox, why_nox_is_unproven
from gatewright.ecosystems.php.phpunit_framework import PHPUNIT
from gatewright.ecosystems.port import Framework, Instruments, Replays, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.python.frameworks import Pytest, Unittest
from gatewright.ecosystems.ruby.frameworks import RUBY_FRAMEWORKS, RubyTests
from gatewright.ecosystems.rust.framework import CARGO_NEXTEST, CARGO_TEST, CargoTest
from gatewright.ecosystems.tox.framework import commands_of_tox, hand_on_through_tox, is_tox, why_tox_is_unproven

# Programs that start other commands (make, tox, nox): the framework that one of these starts answers every question.

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


#: Frameworks that run tests.
_PYTHON: tuple[Framework, ...] = (Pytest(), Unittest())
DIRECT: tuple[Framework, ...] = (
    *_PYTHON,
    *NODE_FRAMEWORKS,
    CARGO_TEST,
    CARGO_NEXTEST,
    GO_TEST,
    CTEST,
    MESON_TEST,
    *RUBY_FRAMEWORKS,
    PHPUNIT,
    MAVEN,
    GRADLE,
)
#: Programs that start these.
_STARTED: tuple[Framework, ...] = (
    *DIRECT,
    *(Through(each, is_tox, commands_of_tox, hand_on_through_tox) for each in _PYTHON),
    *(Through(each, is_nox, commands_of_nox) for each in _PYTHON),
    *(Through(each, is_hatch, commands_of_hatch) for each in _PYTHON),
)
FRAMEWORKS: tuple[Framework, ...] = (*_STARTED, *(Through(each, is_make, commands_of_make) for each in _STARTED))

_OWN = "what it runs is not read from its settings: name that command instead"
#: Programs that run tests but cannot report them without a change to the contract's command, with the reason.
_UNREPORTED = {
    "cmake": "cmake starts ctest by its full path: name it by itself, after the command that builds (ctest --test-dir build)",
    "mvnw": "its wrapper fetches Maven, which needs a network that tests do not have: name mvn",
    "gradlew": "its wrapper fetches Gradle, which needs a network that tests do not have: name gradle",
    "rake": "its tests are not known to be those of minitest or RSpec",
    "tox": _OWN,
    "nox": _OWN,
    "hatch": _OWN,
}


def may_be_tests(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` might start a framework; no tree is read."""
    return any(framework.may_start(argv) for framework in FRAMEWORKS)


async def recognise(argv: Sequence[str], tree: TreeFiles) -> Framework | None:
    """The first framework that ``argv`` starts on ``tree``; None when none is known to."""
    for framework in FRAMEWORKS:
        if framework.may_start(argv) and await framework.recognises(argv, tree):
            return framework
    return None


async def why_unproven(argv: Sequence[str], tree: TreeFiles) -> str:
    """Return why ``argv``, which no framework recognises, proves nothing."""
    asked: tuple[NodeTests | CargoTest | RubyTests, ...] = (*NODE_FRAMEWORKS, CARGO_TEST, CARGO_NEXTEST, *RUBY_FRAMEWORKS)
    for words in (tuple(argv), *await commands_of_make(argv, tree)):
        for each in asked:
            if found := await each.unproven(words, tree):
                return found
        for why in (why_tox_is_unproven, why_nox_is_unproven, why_hatch_is_unproven):
            if found := await why(words, tree):
                return found
        if found := _UNREPORTED.get(posixpath.basename(words[0]) if words else "", ""):
            return found
    started = next((words[0] for words in await commands_of_make(argv, tree)), None)
    if started is not None:
        return f"{started}, which make starts, is not a known test framework: only its exit code is reported"
    return f"{argv[0]} starts no test framework that is known"
