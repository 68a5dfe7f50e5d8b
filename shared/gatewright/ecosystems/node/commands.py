"""The test runner of Node that a command starts, and its folder: directly, or through a package manager and package.json."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import Command, commands_of
from gatewright.ecosystems.subtree import below, read_text

#: The name that the bundle records, by program.
RUNNERS = {"mocha": "mocha", "_mocha": "mocha", "jest": "jest", "vitest": "vitest"}
NODE_TEST = "node:test"
#: Coverage tools and similar, which run the rest of their words as a command.
_AROUND = frozenset({"c8", "nyc"})
_MANAGERS = frozenset({"npm", "yarn", "pnpm"})
#: Mocha's own reporters: ours extends one of these.
_OF_MOCHA = frozenset(
    {"doc", "dot", "json", "json-stream", "landing", "list", "markdown", "min", "nyan", "progress", "spec", "tap", "xunit"}
)
_RUN = frozenset({"run", "run-script", "rum", "urn"})
_TEST = frozenset({"test", "tst", "t"})
#: A script that starts a script: no further than this.
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """A runner with its words, in a folder of the tree. ``hindrance`` is why it cannot report its tests."""

    runner: str
    words: tuple[str, ...]
    folder: str = ""
    hindrance: str = ""


def may_start_node(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` may start a runner of Node, judged without the tree."""
    program = posixpath.basename(argv[0]) if argv else ""
    return program in {"node", "npx", "pnpx", *_AROUND, *_MANAGERS, *RUNNERS}


async def runner_of(argv: Sequence[str], tree: TreeFiles) -> NodeCommand | None:
    """The first runner that ``argv`` starts on ``tree``; None when none is seen."""
    return await _find(Command(tuple(argv)), tree, "", _DEEPEST)


async def _find(command: Command, tree: TreeFiles, folder: str, depth: int) -> NodeCommand | None:
    words = command.words
    if not words or depth == 0:
        return None
    program = posixpath.basename(words[0])
    if program in _AROUND:
        return await _find(replace(command, words=_without_options(words[1:])), tree, folder, depth - 1)
    if found := _direct(program, words, folder):
        return _unreadable_command(found, command)
    if program in {"npx", "pnpx"} or (program in {"pnpm", "yarn"} and words[1:2] in (("exec",), ("dlx",))):
        rest = words[1:] if program in {"npx", "pnpx"} else words[2:]
        return await _find(replace(command, words=_without_options(rest)), tree, folder, depth - 1)
    if program in _MANAGERS:
        return await _through_script(words, tree, folder, depth)
    return None


def _without_options(words: tuple[str, ...]) -> tuple[str, ...]:
    first = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    return words[first:]


def _direct(program: str, words: tuple[str, ...], folder: str) -> NodeCommand | None:
    if program in RUNNERS:
        return NodeCommand(RUNNERS[program], words[1:], folder)
    if program != "node":
        return None
    if "--test" in words:
        return NodeCommand(NODE_TEST, tuple(word for word in words[1:] if word != "--test"), folder)
    # ``node node_modules/.bin/mocha``, ``node --experimental-vm-modules node_modules/jest/bin/jest.js``
    for at, word in enumerate(words[1:], start=1):
        stem = posixpath.basename(word).partition(".")[0]
        if "node_modules/" in word and stem in RUNNERS:
            return NodeCommand(RUNNERS[stem], words[at + 1 :], folder)
    return None


def _unreadable_command(found: NodeCommand, command: Command) -> NodeCommand:
    if "NODE_OPTIONS" in command.variables:
        return replace(found, hindrance="its script sets NODE_OPTIONS, which is how a reporter reaches the runner")
    if found.runner == "mocha" and not _reporters(found.words) <= _OF_MOCHA:
        return replace(found, hindrance="mocha takes one reporter, and the command names one that mocha does not bring")
    if found.runner == NODE_TEST and _count_options(found.words, ("--test-reporter-destination",)) > 1:
        return replace(found, hindrance="the command names several reporters of its own")
    return found


def _count_options(words: tuple[str, ...], options: tuple[str, ...]) -> int:
    return sum(1 for word in words if word.partition("=")[0] in options)


def _reporters(words: tuple[str, ...]) -> set[str]:
    """Return the reporters that mocha's words name."""
    pairs = zip(words, (*words[1:], ""), strict=False)
    split = [(word.partition("="), after) for word, after in pairs]
    return {value if sign else after for (option, sign, value), after in split if option in {"-R", "--reporter"}}


async def _through_script(words: tuple[str, ...], tree: TreeFiles, folder: str, depth: int) -> NodeCommand | None:
    given, rest = _script_name(words)
    if given is None:
        return None
    places = await _workspaces(words, below(tree, folder)) or ("",)
    if len(places) > 1:
        return None
    place = posixpath.normpath(posixpath.join(folder, places[0])) if places[0] else folder
    scripts = await scripts_of(below(tree, place))
    if given not in scripts:
        # yarn and pnpm start a program of the packages when there is no such script.
        direct = words[0] != "npm" and given in RUNNERS
        return NodeCommand(RUNNERS[given], rest, place) if direct else None
    if "node-options" in (await read_text(below(tree, place), ".npmrc")) + (await read_text(tree, ".npmrc")):
        hindrance = "its .npmrc sets node-options, which replaces what would bring a reporter to the runner"
    else:
        hindrance = ""
    commands = commands_of(scripts[given])
    for number, command in enumerate(commands, start=1):
        more = rest if number == len(commands) else ()
        inner = posixpath.normpath(posixpath.join(place, command.folder)) if command.folder else place
        found = await _find(replace(command, words=(*command.words, *more)), tree, inner, depth - 1)
        if found is not None:
            return replace(found, hindrance=found.hindrance or hindrance)
    return None


def _script_name(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the script that a package manager runs, and the words that it passes on."""
    plain: list[str] = []
    left = list(words[1:])
    rest: tuple[str, ...] = ()
    while left:
        word = left.pop(0)
        if word == "--":
            rest = tuple(left)
            break
        if word in {"-w", "--workspace", "--filter", "--prefix", "-C"}:
            del left[:1]
        elif not word.startswith("-"):
            plain.append(word)
            if words[0] != "npm" and not (len(plain) == 1 and word in _RUN):
                rest = tuple(left)
                break
    if plain[:1] and plain[0] in _RUN:
        return (plain[1] if len(plain) > 1 else None), (*plain[2:], *rest)
    if plain[:1] and plain[0] in _TEST and words[0] == "npm":
        return "test", (*plain[1:], *rest)
    if plain[:1] and words[0] != "npm":
        return plain[0], (*plain[1:], *rest)
    return None, ()


async def _workspaces(words: tuple[str, ...], tree: TreeFiles) -> tuple[str, ...]:
    """The folders that ``-w`` and its kind name, by folder or by the package's name; all of them for ``--workspaces``."""
    named = []
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in {"-w", "--workspace"}:
            named.append(value or "".join(words[at + 1 : at + 2]))
    folders = [posixpath.dirname(path) for path in tree.paths if posixpath.basename(path) == "package.json" and "/" in path]
    if "--workspaces" in words:
        return tuple(folder for folder in folders if "node_modules" not in folder.split("/"))
    found: list[str] = []
    for name in named:
        found += [
            folder
            for folder in folders
            if name.strip("./") == folder or (await manifest_of(below(tree, folder))).get("name") == name
        ]
    return tuple(found) or tuple(named)


async def manifest_of(tree: TreeFiles) -> dict[str, object]:
    """The package.json at the top of ``tree``; empty when there is none that can be read."""
    try:
        found = json.loads(await read_text(tree, "package.json") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def scripts_of(tree: TreeFiles) -> dict[str, str]:
    """The scripts of that package.json."""
    found = (await manifest_of(tree)).get("scripts")
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


async def runner_folder(line: str, tree: TreeFiles) -> str:
    """Return the folder that a command line works in: its runner's, or the one that its words name; else the top."""
    try:
        argv = shlex.split(line)
    except ValueError:
        return ""
    started = await runner_of(argv, tree) if may_start_node(argv) else None
    if started is not None and started.folder:
        return started.folder
    for at, word in enumerate(argv):
        option, _, value = word.partition("=")
        if option in {"--prefix", "-C", "--dir", "--cwd"}:
            return posixpath.normpath(value or "".join(argv[at + 1 : at + 2]) or ".")
    return ""
