"""The places where a runner of Node looks for tests, and a new path among them: beside a suite file, named like it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.node.commands import NODE_TEST, NodeCommand
from gatewright.ecosystems.node.globs import glob_pattern
from gatewright.ecosystems.node.settings import RunnerSettings, runner_settings
from gatewright.ecosystems.planting import words
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_SCRIPT = TextPattern(r".*\.[cm]?[jt]sx?")
_PLAIN = TextPattern(r".*\.[cm]?js")
#: Files that ``node --test`` runs outside folders named ``test``.
_NODE_NAME = TextPattern(r"(?:test|test-.+|.+[.\-_]test)\.[cm]?js")
_SPEC_NAME = TextPattern(r".*[.](?:spec|test)\.[cm]?[jt]sx?")
#: The three forms of a test file's name.
_AFFIXED = (
    TextPattern(r"(?P<before>test[-_])(?P<stem>.+)(?P<after>\.[cm]?[jt]sx?)"),
    TextPattern(r"(?P<before>)(?P<stem>.+)(?P<after>[._-](?:test|tests|spec|specs)\.[cm]?[jt]sx?)"),
    TextPattern(r"(?P<before>)(?P<stem>[^.]+)(?P<after>(?:\.[a-z]+)?\.[cm]?[jt]sx?)"),
)
_IMPORTS = TextPattern(r"(?m)^\s*import[\s{*'\"]|^export\s")
_TESTS = TextPattern(r"\b(?:test|it)(?:\.[a-z]+)*\s*[(`]")
#: Folders of things that a suite reads, and of what is not the repository's.
_NOT_TESTS = frozenset(
    {"node_modules", "fixtures", "__fixtures__", "__snapshots__", "__mocks__", "testdata", "dist", "coverage"}
)
#: Files that are read in search of one that holds tests.
_MOST_READ = 40
_VALUED = frozenset(
    {"-t", "-c", "-f", "-g", "-r", "--grep", "--require", "--import", "--loader", "--config", "--testNamePattern", "--reporter"}
    | {"--reporters", "--timeout", "--project", "--projects", "--ui", "--extension", "--test-concurrency", "--test-timeout"}
    | {"--test-reporter", "--test-reporter-destination", "--test-name-pattern", "--test-skip-pattern", "--environment", "--dir"}
    | {"--root", "--spec", "--maxWorkers", "-w", "--conditions", "-C", "--env-file", "--experimental-loader", "--pool"}
)
#: Options after which not every test is run: a planted one would be left out as well.
_CHOOSING = frozenset(
    {"-t", "--testNamePattern", "-g", "--grep", "-f", "--fgrep", "--test-name-pattern", "--test-skip-pattern", "--changed"}
    | {
        "--onlyChanged",
        "-o",
        "--findRelatedTests",
        "--shard",
        "--test-shard",
        "--runTestsByPath",
        "--changedSince",
        "--related",
    }
)

Accepts = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A file of the suite, and a new path beside it."""

    path: str
    text: str
    new: str
    imports: bool


def runs_only_some(started: NodeCommand) -> bool:
    """Return whether the command selects some of its tests."""
    return any(word.partition("=")[0] in _CHOOSING for word in started.words)


async def new_place(started: NodeCommand, tree: TreeFiles, draw: Random) -> SuiteFile | None:
    """A place for a new test of the suite, paths from the folder of the runner; None when there is none."""
    accepts = _accepts(started, tree, await runner_settings(started.runner, tree))
    paths = sorted(path for path in tree.paths if _NOT_TESTS.isdisjoint(path.split("/")) and accepts(path))
    draw.shuffle(paths)
    texts = [(path, await read_text(tree, path)) for path in paths[:_MOST_READ]]
    for path, text in sorted(texts, key=lambda each: not _TESTS.is_in(each[1])):
        new = _beside(path, draw)
        if new is not None and new not in tree.paths and accepts(new):
            return SuiteFile(path, text, new, await _is_module(path, text, tree))
    return None


def _operands(started: NodeCommand) -> tuple[str, ...]:
    found: list[str] = []
    left = list(started.words)
    while left:
        word = left.pop(0)
        if word in _VALUED:
            del left[:1]
        elif not word.startswith("-") and word != "run":
            found.append(posixpath.normpath(word))
    return tuple(found)


def _accepts(started: NodeCommand, tree: TreeFiles, settings: RunnerSettings) -> Accepts:
    """Return a predicate for the paths that the runner accepts, by its words and settings."""
    operands = _operands(started)
    among = _among(started.runner, settings, given=bool(operands))
    if not operands:
        return among
    usual = among if started.runner in {"jest", "vitest"} else _usual(started.runner, given=True)
    by_words = _named_by_words(started, tree, operands, usual)
    if started.runner == "mocha":  # runs what its settings name as well
        return lambda path: not settings.exclude(path) and (by_words(path) or (settings.choose() and among(path)))
    return by_words


def _among(runner: str, settings: RunnerSettings, *, given: bool) -> Accepts:
    """Return a predicate for the paths that the runner accepts when its words name none."""
    usual = _usual(runner, given=given)
    chosen_by = usual if not settings.choose() else lambda path: _SCRIPT.fullmatch(path) is not None and settings.include(path)
    return lambda path: chosen_by(path) and not settings.exclude(path)


def _named_by_words(started: NodeCommand, tree: TreeFiles, operands: tuple[str, ...], usual: Accepts) -> Accepts:
    """Return a predicate for the paths that the words of the command name."""
    if started.runner in {"jest", "vitest"}:  # parts of a path (vitest), or a pattern of one (jest)
        return lambda path: usual(path) and any(operand.strip("^$.*\\") in path for operand in operands)
    globs = [TextPattern(glob_pattern(operand)) for operand in operands if any(sign in operand for sign in "*?[{")]
    places = {folder for path in tree.paths for folder in _above(path)}
    # A glob may mean folders: packages/*/test
    folders = {each for each in places if each in operands or any(glob.fullmatch(each) is not None for glob in globs)}

    def accepts(path: str) -> bool:
        if any(glob.fullmatch(path) is not None for glob in globs):
            return _SCRIPT.fullmatch(path) is not None
        if not usual(path):
            return False
        if started.runner == "mocha" and "--recursive" not in started.words:
            return posixpath.dirname(path) in folders
        return "." in operands or any(path.startswith(f"{each}/") for each in folders)

    return accepts


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path."""
    while path := posixpath.dirname(path):
        yield path


def _usual(runner: str, *, given: bool) -> Accepts:
    """Return a predicate for the paths that the runner accepts by default."""
    if runner == NODE_TEST:
        return lambda path: (
            _PLAIN.fullmatch(path) is not None
            and ("test" in path.split("/")[:-1] or _NODE_NAME.fullmatch(posixpath.basename(path)) is not None)
        )
    if runner == "mocha":
        return lambda path: _SCRIPT.fullmatch(path) is not None and (given or path.split("/")[0] in {"test", "tests", "spec"})
    return lambda path: (
        _SPEC_NAME.fullmatch(path) is not None
        or (runner == "jest" and "__tests__" in path.split("/")[:-1] and _SCRIPT.fullmatch(path) is not None)
    )


def _beside(path: str, draw: Random) -> str | None:
    folder, name = posixpath.split(path)
    for affixed in _AFFIXED:
        parts = affixed.fullmatch(name)
        if parts is not None:
            joint = "_" if "_" in parts["stem"] else "-"
            return posixpath.join(folder, f"{parts['before']}{joint.join(words(draw))}{parts['after']}")
    return None


async def _is_module(path: str, text: str, tree: TreeFiles) -> bool:
    """Return whether a file like ``path`` is an ECMAScript module: by its ending, its neighbour, or package.json."""
    ending = posixpath.splitext(path)[1]
    if ending != ".js":
        return ending != ".cjs"
    if _IMPORTS.is_in(text):
        return True
    if "require(" in text:
        return False
    folder = posixpath.dirname(path)
    while True:
        manifest = await read_text(tree, posixpath.join(folder, "package.json"))
        if manifest or not folder:
            return '"module"' in manifest.replace("'", '"')
        folder = posixpath.dirname(folder)


def usual_places(started: NodeCommand) -> Accepts:
    """Return a predicate for the paths that the runner accepts when its words name none."""
    return _usual(started.runner, given=False)
