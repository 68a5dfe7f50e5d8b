"""Which files are tests, and which are settings of what runs them, by their names. Pure.

The policy has the list that protects settings of runners, which an operator may change; this one only says what a change of
tests brings along.
"""

from __future__ import annotations

from gatewright.patterns import BytesPattern

_DIRECTORIES = frozenset({b"test", b"tests", b"__tests__", b"spec", b"specs"})
_TESTS = BytesPattern(
    rb"test_.*\.(?:py|rb|c|cc|cpp)|tests?\.(?:py|rs)|.*_tests?\.\w+|.*_spec\.\w+|.*\.(?:test|spec)\.\w+|conftest\.py"
    rb"|.*(?:Tests?|IT|Spec|TestCase)\.(?:java|kt|cs|php|swift|scala|groovy)|Test[A-Z].*\.(?:java|kt|cs)"
)
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
    # Metadata that brings a plugin in wherever it is found, what stands in the place of a source, and what rewrites tests.
    rb"|entry_points\.txt|.*\.pyc|hatch\.toml|babel\.config\..*|\.babelrc.*|\.swcrc|node\.config\.json"
)
_IN_FOLDERS = BytesPattern(rb"(?i)(?:.*/)?(?:\.cargo/config(?:\.toml)?|\.mvn/.*)")


def is_test(path: bytes) -> bool:
    """Whether ``path`` is a test, or lies among tests, by the usual names."""
    *directories, _ = path.split(b"/")
    return not _DIRECTORIES.isdisjoint(part.lower() for part in directories) or has_test_name(path)


def has_test_name(path: bytes) -> bool:
    """Whether the name of the file itself is one that runners collect."""
    return _TESTS.fullmatch(path.rpartition(b"/")[2])


def is_runner_setting(path: bytes) -> bool:
    """Whether ``path`` is a file that is there for a runner of tests alone, or starts one."""
    return _SETTINGS.fullmatch(path.rpartition(b"/")[2]) or _SETTINGS_AT_THE_TOP.fullmatch(path) or _IN_FOLDERS.fullmatch(path)
