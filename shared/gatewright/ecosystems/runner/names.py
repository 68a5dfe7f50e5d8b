"""Test files, test data and runner settings, recognised by name. Pure.

This is the one definition of test names: the policy's class of tests, the reviewer and the test runner all use it. The
policy lists settings of runners, and an operator may change that list; the list here only shows what a change of tests
includes.
"""

from __future__ import annotations

from typing import Final

from gatewright.patterns import BytesPattern

#: Folders in which every file belongs to tests: lower case, at any depth.
_DIRECTORIES: Final = frozenset(
    {
        *(b"test", b"tests", b"__tests__", b"e2e", b"cypress", b"step_definitions", b"integration-tests", b"integration_tests"),
        # Source sets of Gradle and of Kotlin.
        *(b"androidtest", b"androidunittest", b"commontest", b"functionaltest", b"integrationtest", b"iostest", b"jstest"),
        *(b"jvmtest", b"nativetest", b"sharedtest"),
    }
)
#: Folders of what tests read or compare with.
_DATA_DIRECTORIES: Final = frozenset(
    {
        *(
            *(b"fixtures", b"__fixtures__", b"__mocks__", b"snapshots", b"__snapshots__", b"__image_snapshots__"),
            *(b"testdata", b"test-data"),
        ),
        *(b"test_data", b"testfixtures", b"cassettes", b"vcr_cassettes", b"golden", b"goldens"),
    }
)
#: Folders of RSpec, Jasmine and busted. Other kinds of specifications use the same names, so only code is included.
_CODE_DIRECTORIES: Final = frozenset({b"spec", b"specs"})
_CODE: Final = (
    rb"(?:pyi?|rb|[cm]?[jt]sx?|vue|svelte|astro|coffee|go|rs|java|kts?|scala|sc|groovy|cs|fsx?|vb|php|swift|mm?|exs?|erl|dart"
    rb"|c|cc|cpp|cxx|cu|hh?|hpp|pl|pm|t|r|lua|hs|lhs|jl|zig|sh|bash|zsh|fish|clj|cljs|cljc|nim|cr|mli?|elm|f90|ps1|rego|sol"
    rb"|star|bzl|tcl|v|sv|vhd|res|rei?|gleam|d|ada|adb|pas|sql)"
)
#: Names in small letters, and as a file system that ignores case would see them.
_SMALL_NAMES: Final = BytesPattern(
    rb"test[_-].*\."
    + _CODE
    + rb"|tests?\."
    + _CODE
    + rb"|.*[_-](?:tests?|spec|unittests?)\."
    + _CODE
    # JavaScript: a.test.tsx, a.spec.mts, a.cy.js, a.e2e-spec.ts, a.test-d.ts. Pester: a.tests.ps1. Foundry: a.t.sol.
    + rb"|.*\.(?:tests?|test-d|spec|cy|e2e|e2e-spec)\."
    + _CODE
    + rb"|.*\.(?:t\.sol|t|phpt|bats|robot|feature|tftest\.hcl|tftest\.json)|test_.*\.tavern\.ya?ml|runtests\.jl|conftest\.py"
)
#: Names in which a capital letter starts the word: ``PriceTests.cs``, not ``Requests.cs`` or ``Latest.java``. ``Spec`` alone
#: often means a description, as in ``PodSpec.java``.
_CAPITAL_NAMES: Final = BytesPattern(
    rb".*Test(?:s|Case|Cases|Suite)?\.(?:java|kts?|scala|groovy|cs|fsx?|vb|php|swift|mm?|cpp|cc|cxx|hs|elm|dart|[jt]sx?|pas|d|cls)"
    rb"|.*[a-z0-9]IT(?:Case)?\.(?:java|kt|scala|groovy)|.*Spec\.(?:kt|scala|groovy|hs|php)|.*Specs\.(?:cs|fs|vb|swift)"
    rb"|Test[A-Z0-9_].*\.(?:java|kt|scala|groovy|cs|fs|vb|mm?|swift|pas)"
    rb"|.*[a-z0-9](?:Cest|Cept)\.php|.*[a-z0-9]Suite\.scala|.*_SUITE\.erl"
)
#: Projects of .NET and targets of Xcode: ``Shop.Tests/``, ``ShopUITests/``.
_CAPITAL_DIRECTORIES: Final = BytesPattern(
    rb".*\.(?:(?:Unit|Integration|Functional|Acceptance|EndToEnd)?Tests?|Specs)|.*[a-z0-9](?:UI)?Tests"
)
_DATA_NAMES: Final = BytesPattern(rb".*\.(?:snap|snap\.[a-z0-9]+|golden|(?:approved|verified)\.[a-z0-9]+)")
_CODE_NAME: Final = BytesPattern(rb".*\." + _CODE)
#: At the top only: further down they build things.
_SETTINGS_AT_THE_TOP = BytesPattern(
    rb"(?i)(?:gnu)?makefile|[^/]*\.mk|\.?justfile|taskfile\.ya?ml|rakefile|turbo\.json|nx\.json"
)
_SETTINGS = BytesPattern(
    rb"(?i)noxfile\.py|tox\.(?:ini|toml)|\.?pytest\.(?:ini|toml)|\.coveragerc"
    rb"|vitest\.(?:config|workspace|setup)\..*|jest\.(?:config|setup|preset)\..*|\.mocharc.*|mocha\.opts"
    rb"|(?:karma|playwright|cypress|ava)\.conf(?:ig)?\..*|\.taprc|jasmine\.json|\.nycrc.*|bunfig\.toml"
    rb"|phpunit\.xml.*|phpunit\.dist\.xml|pest\.php|\.rspec(?:-local)?|nextest\.toml"
    rb"|ctest(?:config|custom|testfile)\.cmake|cmakepresets\.json|.*\.runsettings|xunit\.runner\.json|.*\.xctestplan"
    rb"|testng.*\.xml|junit-platform\.properties"
    # Metadata that loads a plugin wherever it is found, substitutes for sources, and rewriters of tests.
    rb"|entry_points\.txt|.*\.pyc|hatch\.toml|babel\.config\..*|\.babelrc.*|\.swcrc|node\.config\.json"
)
_IN_FOLDERS = BytesPattern(rb"(?i)(?:.*/)?(?:\.cargo/config(?:\.toml)?|\.mvn/.*)")


def is_test(path: bytes) -> bool:
    """Return whether ``path`` is a test, or among tests, by the usual names of every ecosystem."""
    *directories, name = path.lower().split(b"/")
    if not _DIRECTORIES.isdisjoint(directories) or _is_among_projects(path) or has_test_name(path):
        return True
    return not _CODE_DIRECTORIES.isdisjoint(directories) and _CODE_NAME.fullmatch(name)


def is_test_data(path: bytes) -> bool:
    """Return whether ``path`` is test data: fixtures, snapshots, recorded answers."""
    *directories, name = path.lower().split(b"/")
    return not _DATA_DIRECTORIES.isdisjoint(directories) or _DATA_NAMES.fullmatch(name)


def has_test_name(path: bytes) -> bool:
    """Return whether runners collect a file of this name."""
    name = path.rpartition(b"/")[2]
    return _SMALL_NAMES.fullmatch(name.lower()) or _CAPITAL_NAMES.fullmatch(name)


def _is_among_projects(path: bytes) -> bool:
    return any(_CAPITAL_DIRECTORIES.fullmatch(folder) for folder in path.split(b"/")[:-1])


def is_runner_setting(path: bytes) -> bool:
    """Return whether ``path`` is a file that only configures or starts a test runner."""
    return _SETTINGS.fullmatch(path.rpartition(b"/")[2]) or _SETTINGS_AT_THE_TOP.fullmatch(path) or _IN_FOLDERS.fullmatch(path)
