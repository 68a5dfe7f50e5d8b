"""The parts of a manifest that decide which tests run, and whether a change touches them. Pure; the input is hostile.

A manifest changes often: versions, dependencies, names. Only the parts that a test runner reads are compared, by meaning:
``parts_of`` a version are names with values, and an unreadable part is treated as changed. All of it is linear in the
content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gatewright import foreign_documents
from gatewright.foreign_documents import UnreadableDocumentError, table_of
from gatewright.patterns import BytesPattern

# Tests that a build file of C or C++ declares (CMake, Meson), with their properties. Pure, linear; the input is hostile.
# Declaring a new test does not change existing ones; changing or removing a declaration does.
#: Before the name of a declared test.
DECLARED = "declared test: "
_ARGUMENTS = rb"\s*\(([^()]*(?:\([^()]*\)[^()]*){0,20})\)"
_CMAKE = BytesPattern(rb"(?i)\b((?:add_test|[a-z_]*discover_tests)" + _ARGUMENTS + rb")")
_CMAKE_LINES = BytesPattern(
    rb"(?i)\b(?:enable_testing|set_tests_properties|set_property\s*\(\s*TEST|WILL_FAIL|CTEST_\w+|NDEBUG)\b"
)
_MESON = BytesPattern(rb"(?m)^[ \t]*((?:test|benchmark)" + _ARGUMENTS + rb")")
_MESON_LINES = BytesPattern(
    rb"\b(?:should_fail|add_test_setup|b_ndebug|testcase|override_find_program|expected_exitcode)\b|^\s*test\s*="
)
#: Keywords of a declaration that introduce the next word.
_NAMES = frozenset({"name", "target"})


def cmake_settings(content: bytes) -> Mapping[str, Any]:
    """The parts of a ``CMakeLists.txt`` that decide which tests run."""
    text = b"\n".join(line.partition(b"#")[0] if b'"' not in line else line for line in content.split(b"\n"))
    return {**_declared_calls(_CMAKE.groups(text)), **_spoken_of(text, _CMAKE_LINES)}


def meson_settings(content: bytes) -> Mapping[str, Any]:
    """The parts of a ``meson.build`` that decide which tests run."""
    return {**_declared_calls(_MESON.groups(content)), **_spoken_of(content, _MESON_LINES)}


def _declared_calls(calls: Iterator[bytes]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for call in calls:
        words = call.partition(b"(")[2].replace(b",", b" ").decode("utf-8", "backslashreplace").split()
        name = next((word.strip("\"')") for word in words if word.casefold() not in _NAMES), "")
        found.setdefault(f"{DECLARED}{name}", []).append(" ".join(call.decode("utf-8", "backslashreplace").split()))
    return found


def _spoken_of(content: bytes, wanted: BytesPattern) -> Mapping[str, int]:
    lines = (b" ".join(line.split()) for line in content.split(b"\n"))
    return {f"{line.decode('utf-8', 'backslashreplace')}": n for line, n in Counter(filter(wanted.first, lines)).items()}


#: Maximum bytes of a manifest; a larger one is treated as changed.
MOST_BYTES = 256 << 10
#: Characters that are shown of why a manifest cannot be read.
_MOST_WORDS = 200
#: The only part of an unreadable manifest.
UNREADABLE = "what cannot be read"
_PLUGINS = "pytest11"

Parts = Mapping[str, Any]
Reader = Callable[[bytes], Parts]


class UnreadableError(ValueError):
    """This version of the file cannot be parsed."""


def changed_settings(path: bytes, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """The parts of the manifest at ``path`` that decide which tests run and differ; None is a file that is not there.

    Empty for a file that is no manifest.
    """
    read = _READERS.get(_name(path))
    return changed_parts(read, old, new, _is_new) if read is not None else ()


def changed_parts(
    read: Reader, old: bytes | None, new: bytes | None, may_be_new: Callable[[str], bool] = lambda _name: False
) -> tuple[str, ...]:
    """The names of the parts that differ, but for those that are new and ``may_be_new``; what cannot be read differs."""
    if old == new:
        return ()
    try:
        before, after = (_read_parts(read, content) for content in (old, new))
    except UnreadableError as error:
        return (f"{UNREADABLE} ({error})",)
    differing = (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return tuple(sorted(name for name in differing if name in before or not may_be_new(name)))


def _is_new(name: str) -> bool:
    """Return whether a part only adds something: a test, a name, or a script that is not run automatically."""
    if name.startswith((DECLARED, "imports.")):
        return True
    script = name.removeprefix("scripts.")
    return script != name and not script.startswith(("pre", "post", "test"))


def is_manifest(path: bytes) -> bool:
    """Return whether parts of ``path`` could decide which tests run."""
    return _name(path) in _READERS


def _name(path: bytes) -> str:
    name = path.rpartition(b"/")[2].decode("utf-8", "replace").casefold()
    return "vite.config" if name.startswith("vite.config.") else name


def _read_parts(read: Reader, content: bytes | None) -> Parts:
    if content is None:
        return {}
    if len(content) > MOST_BYTES:
        raise UnreadableError("it is too large")
    return read(content)


# ---------------------------------------------------------------------------------------------------- JSON


def read_json(content: bytes) -> dict[str, Any]:
    """The object of a JSON file. Raises UnreadableError."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise UnreadableError("it is no JSON") from None
    if not isinstance(document, dict):
        raise UnreadableError("it is no object")
    return document


_STRING = rb'("(?:[^"\\\n]|\\[^\n])*")|'
_COMMENT = BytesPattern(_STRING + rb"(//[^\n]*|/\*(?:[^*]|\*+[^*/])*(?:\*+/|\**\z))")
_LAST_COMMA = BytesPattern(_STRING + rb"(,)\s*[\]}]")


def read_jsonc(content: bytes) -> dict[str, Any]:
    """The same with comments, and commas at the end of lists. Raises UnreadableError."""
    return read_json(without_comments(content))


def without_comments(content: bytes) -> bytes:
    """JSON of a text that is JSON with comments, and commas at the end of lists."""
    return _without(_LAST_COMMA, _without(_COMMENT, content))


def _without(pattern: BytesPattern, content: bytes) -> bytes:
    """``content`` without the second groups of ``pattern``."""
    cleaned, at = bytearray(), 0
    for group, start, end in pattern.spans(content):
        if group == 2:
            cleaned += content[at:start]
            at = end
    return bytes(cleaned + content[at:])


_NODE_KEYS = (
    *("jest", "mocha", "vitest", "ava", "nyc", "c8", "tap", "jasmine", "karma", "wireit", "nx", "config"),
    *("babel", "ts-node", "stryker", "playwright", "cypress"),
)


def _package_json(content: bytes) -> Parts:
    document = read_json(content)
    scripts = document.get("scripts", {})
    found = {name: document[name] for name in _NODE_KEYS if name in document}
    imports = document.get("imports")
    # Targets of ``#name`` imports: tests may import the sources through them.
    found |= {f"imports.{name}": place for name, place in imports.items()} if isinstance(imports, dict) else {}
    if isinstance(scripts, dict):
        return found | {f"scripts.{name}": command for name, command in scripts.items()}
    return found | {"scripts": scripts}


def _scripts(key: str) -> Reader:
    return lambda content: {key: value} if (value := read_json(content).get(key)) is not None else {}


# ---------------------------------------------------------------------------------------------------- TOML


def read_toml(content: bytes) -> dict[str, Any]:
    """The document of a TOML file. Raises UnreadableError."""
    try:
        return foreign_documents.read_toml(content, MOST_BYTES)
    except UnreadableDocumentError as error:
        raise UnreadableError(f"no TOML: {error}"[:_MOST_WORDS]) from None


_PYTHON_TOOLS = ("pytest", "tox", "coverage", "nox", "nose2", "poe", "taskipy", "pixi", "ward", "green", "unittest")
#: The dependencies of a hatch or pdm test environment change with the project's dependencies.
_NEEDS = frozenset({"dependencies", "extra-dependencies", "features", "python", "description"})


def _pyproject(content: bytes) -> Parts:
    document = read_toml(content)
    tools = table_of(document, "tool")
    found = {f"tool.{name}": tools[name] for name in tools if name in _PYTHON_TOOLS or name.startswith("pytest")}
    found |= {f"tool.pdm.scripts.{name}": value for name, value in table_of(tools, "pdm", "scripts").items()}
    for name, environment in table_of(tools, "hatch", "envs").items():
        rest = {key: value for key, value in table_of(environment).items() if key not in _NEEDS}
        found |= {f"tool.hatch.envs.{name}": rest} if rest else {}
    for place in (("project", "entry-points"), ("tool", "poetry", "plugins")):
        if _PLUGINS in (plugins := table_of(document, *place)):
            found[".".join((*place, _PLUGINS))] = plugins[_PLUGINS]
    return found


_TARGET_KEYS = ("test", "doctest", "harness", "bench")


def _cargo_toml(content: bytes) -> Parts:
    """Read test targets, flags of any target, and the members: a removed member removes its tests."""
    document = read_toml(content)
    found: dict[str, Any] = {name: document[name] for name in ("test", "bench") if name in document}
    package, workspace = table_of(document, "package"), table_of(document, "workspace")
    found |= {f"package.{name}": package[name] for name in ("autotests", "autobins", "autolib", "workspace") if name in package}
    found |= {f"workspace.{name}": workspace[name] for name in ("members", "exclude", "default-members") if name in workspace}
    targets = {"lib": document.get("lib"), **{f"bin.{n}": each for n, each in enumerate(_list(document.get("bin")))}}
    for place, target in targets.items():
        found |= {f"{place}.{name}": target[name] for name in _TARGET_KEYS if isinstance(target, dict) and name in target}
    if "test" in table_of(document, "profile"):
        found["profile.test"] = document["profile"]["test"]
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# ---------------------------------------------------------------------------------------------------- sections and lines


def sections_of(is_wanted: Callable[[str], bool]) -> Reader:
    """Return a reader of sectioned files: the lines of the wanted sections."""

    def read(content: bytes) -> Parts:
        found: dict[str, list[bytes]] = {}
        lines: list[bytes] | None = None
        for line in content.split(b"\n"):
            stripped = line.strip()
            if line.startswith(b"[") and b"]" in stripped:
                name = stripped[1 : stripped.rindex(b"]")].decode("utf-8", "replace")
                lines = found.setdefault(name, []) if is_wanted(name) else None
            elif lines is not None and stripped and not stripped.startswith((b"#", b";")):
                lines.append(stripped)
        return found

    return read


_PYTHON_SECTIONS = ("tool:pytest", "pytest", "coverage:", "aliases", "nosetests", "tox", "testenv", "unittest")


def _is_python_section(name: str) -> bool:
    return name.casefold().startswith(_PYTHON_SECTIONS)


def _setup_cfg(content: bytes) -> Parts:
    return {**sections_of(_is_python_section)(content), **lines_of(_PLUGIN_LINE)(content)}


def lines_of(wanted: BytesPattern) -> Reader:
    """Return a reader of a manifest that is a program: the lines that mention tests, in any order."""

    def read(content: bytes) -> Parts:
        lines = (b" ".join(line.split()) for line in content.split(b"\n"))
        found = Counter(line for line in lines if wanted.first(line) is not None)
        return {line.decode("utf-8", "backslashreplace"): count for line, count in found.items()}

    return read


def _whole_if_it_tests(content: bytes) -> Parts:
    """Such a file is a program, and serves builds as well: it counts where it speaks of tests, then as a whole."""
    return {"test": content} if _VITEST.first(content) is not None else {}


_VITEST = BytesPattern(rb"vitest|\btest['\"]?[ \t]*:")
_PLUGIN_LINE = BytesPattern(rb"pytest11|test_suite|test_loader")
_READERS: Mapping[str, Reader] = {
    "package.json": _package_json,
    "composer.json": _scripts("scripts"),
    "deno.json": _scripts("tasks"),
    "pyproject.toml": _pyproject,
    "cargo.toml": _cargo_toml,
    "setup.cfg": _setup_cfg,
    "setup.py": lines_of(BytesPattern(rb"pytest11|test_suite|test_loader|cmdclass")),
    ".npmrc": lines_of(BytesPattern(rb"(?i)^(?:script-shell|node-options|if-present|ignore-scripts|prefix|workspaces?)\b")),
    "pom.xml": lines_of(
        BytesPattern(
            rb"(?i)skip|maven\.test|testFailureIgnore|surefire|failsafe|</?(?:ex|in)cludes?>|(?:excluded)?groups>|argLine"
        )
    ),
    **dict.fromkeys(
        ("build.gradle", "build.gradle.kts"),
        lines_of(
            BytesPattern(rb"ignoreFailures|useJUnit|useTestNG|\b[tT]est\b|\btests\b|enabled|onlyIf|failOnNo|(?:ex|in)clude")
        ),
    ),
    "cmakelists.txt": cmake_settings,
    "meson.build": meson_settings,
    "vite.config": _whole_if_it_tests,
}
