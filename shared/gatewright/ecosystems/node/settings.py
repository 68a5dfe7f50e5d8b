"""The test files that the settings of mocha, jest and vitest select: read as text, never run.

Only literal strings are read. Computed values and unknown settings are ignored: the runner's default places then apply, and
the control run shows whether planted tests run.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gatewright.ecosystems.node.globs import glob_pattern
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import BytesPattern, TextPattern, is_pattern

_SCRIPTS = ("ts", "mts", "cts", "js", "mjs", "cjs")
#: In each runner's search order; the first existing file applies.
_FILES = {
    "mocha": tuple(f".mocharc.{ending}" for ending in ("js", "cjs", "mjs", "yaml", "yml", "jsonc", "json")),
    "jest": tuple(f"jest.config.{ending}" for ending in ("js", "ts", "mjs", "cjs", "json")),
    "vitest": (*(f"vitest.config.{each}" for each in _SCRIPTS), *(f"vite.config.{each}" for each in _SCRIPTS)),
}
#: Names of settings that include and exclude files; for jest as patterns of paths, if the name requires it.
_INCLUDES = {"mocha": ("spec",), "jest": ("testMatch",), "vitest": ("include",)}
_EXCLUDES = {"mocha": ("ignore", "exclude"), "jest": (), "vitest": ("exclude",)}
_PATTERNS = {"jest": ("testRegex",)}
_NOT_PATTERNS = {"jest": ("testPathIgnorePatterns", "modulePathIgnorePatterns")}
#: Parts of the settings that have names of the same spelling for other things.
_OTHERS = ("coverage", "typecheck", "optimizeDeps", "benchmark", "deps", "server", "build")
_STRING = BytesPattern(rb"""["'`]([^"'`\n]*)["'`]""")
_YAML_ITEM = BytesPattern(rb"""(?m)^[ \t]*-[ \t]*["']?([^"'#\s]+)["']?[ \t]*$""")
_LONGEST = 300
_MOST = 200


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Globs of files and folders, and patterns searched for in paths. All empty: no setting applies."""

    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    not_patterns: tuple[str, ...] = ()
    recursive: bool = False

    def choose(self) -> bool:
        """Return whether they select test files."""
        return bool(self.includes or self.patterns)

    def include(self, path: str) -> bool:
        """Return whether a path is included."""
        return any(_meets(each, path, self.recursive) for each in self.includes) or _is_searched(self.patterns, path)

    def exclude(self, path: str) -> bool:
        """Return whether a path is excluded."""
        return any(_meets(each, path, deep=True) for each in self.excludes) or _is_searched(self.not_patterns, path)


async def runner_settings(runner: str, tree: TreeFiles) -> RunnerSettings:
    """The settings of ``runner`` at the top of ``tree``."""
    if runner not in _FILES:
        return RunnerSettings()
    file = next((name for name in _FILES[runner] if name in tree.paths), None)
    text = await read_text(tree, file) if file is not None else await _in_manifest(runner, tree)
    if not text:
        return RunnerSettings()
    text = _without_others(text)
    return RunnerSettings(
        tuple(_globs(text, _INCLUDES[runner])),
        tuple(_globs(text, _EXCLUDES[runner])),
        tuple(_usable(_values(text, _PATTERNS.get(runner, ())))),
        tuple(_usable(_values(text, _NOT_PATTERNS.get(runner, ())))),
        TextPattern(r"""\brecursive["']?\s*:\s*true""").is_in(text),
    )


async def _in_manifest(runner: str, tree: TreeFiles) -> str:
    try:
        manifest = json.loads(await read_text(tree, "package.json") or "{}")
    except (ValueError, RecursionError):
        return ""
    found = manifest.get(runner) if isinstance(manifest, dict) else None
    return json.dumps(found) if isinstance(found, dict) else ""


def _without_others(text: str) -> str:
    """``text`` without the objects that have settings of the same names for other things."""
    for name in _OTHERS:
        for opening in (f"{name}: {{", f"{name}:{{", f'"{name}": {{'):
            at = text.find(opening)
            if at >= 0:
                text = text[:at] + text[_end_of_object(text, at + len(opening)) :]
    return text


def _end_of_object(text: str, at: int) -> int:
    depth = 1
    while at < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _globs(text: str, names: Iterable[str]) -> Iterator[str]:
    for value in _values(text, names):
        yield posixpath.normpath(value.removeprefix("<rootDir>/"))


def _values(text: str, names: Iterable[str]) -> Iterator[str]:
    """The strings that are given to ``names``, in JSON, JavaScript or YAML."""
    data = text.encode("utf-8", "surrogatepass")
    for name in map(str.encode, names):
        found: list[bytes] = []
        key = rb"""(?:^|[\s{,("'])""" + name + rb"""["']?\s*:\s*"""
        for each in BytesPattern(key + rb"(\[[^\]]*\])").groups(data):
            found += _STRING.groups(each)
        for each in BytesPattern(key + rb"""(["'`][^"'`\n]*["'`])""").groups(data):
            found += _STRING.groups(each)
        for each in BytesPattern(rb"(?m)^" + name + rb":[ \t]*\n((?:[ \t]*-.*\n?)+)").groups(data):
            found += _YAML_ITEM.groups(each)
        found += BytesPattern(rb"(?m)^" + name + rb""":[ \t]+([^\s\["'#&*!|>][^\s#]*)[ \t]*$""").groups(data)
        yield from (each.decode("utf-8", "replace") for each in found[:_MOST] if len(each) <= _LONGEST)


def _usable(patterns: Iterable[str]) -> Iterator[str]:
    """Yield the usable patterns, with the doubled backslashes of JavaScript strings undone."""
    for each in patterns:
        pattern = each.replace("\\\\", "\\").replace("<rootDir>", "")
        if is_pattern(pattern):
            yield pattern


def _is_searched(patterns: Iterable[str], path: str) -> bool:
    return any(TextPattern(each).is_in(f"/{path}") for each in patterns)


def _meets(glob: str, path: str, deep: bool) -> bool:
    """Return whether ``glob`` matches ``path`` or a folder above it; folders several levels above only with ``deep``."""
    pattern = TextPattern(glob_pattern(glob))
    if pattern.fullmatch(path) is not None:
        return True
    above = posixpath.dirname(path)
    while above:
        if pattern.fullmatch(above) is not None:
            return True
        above = posixpath.dirname(above) if deep else ""
    return False
