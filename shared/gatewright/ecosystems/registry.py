"""The known frameworks in the order in which they are tried; a new ecosystem appends its own here."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from gatewright.ecosystems.c.ctest_framework import CTEST
from gatewright.ecosystems.c.meson_framework import MESON_TEST
from gatewright.ecosystems.go.framework import GO_TEST
from gatewright.ecosystems.hatch.framework import commands_of_hatch, is_hatch, why_hatch_is_unproven
from gatewright.ecosystems.java.frameworks import GRADLE, MAVEN
from gatewright.ecosystems.make.framework import commands_of_make, is_make
from gatewright.ecosystems.node.frameworks import NODE_FRAMEWORKS, NodeTests
from gatewright.ecosystems.nox.framework import commands_of_nox, is_nox, why_nox_is_unproven
from gatewright.ecosystems.php.phpunit_framework import PHPUNIT
from gatewright.ecosystems.port import Framework, TreeFiles
from gatewright.ecosystems.python.frameworks import Pytest, Unittest
from gatewright.ecosystems.ruby.frameworks import RUBY_FRAMEWORKS, RubyTests
from gatewright.ecosystems.rust.framework import CARGO_NEXTEST, CARGO_TEST, CargoTest
from gatewright.ecosystems.through import Through
from gatewright.ecosystems.tox.framework import commands_of_tox, hand_on_through_tox, is_tox, why_tox_is_unproven

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
