"""Classes a failed acceptance command by the program that it starts. A class is for people; no verdict depends on it. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Final, Literal

from gatewright.ecosystems.detection import builds
from gatewright.ecosystems.make.framework import is_make, target_of_make
from gatewright.ecosystems.python.command import what_starts
from gatewright.ecosystems.registry import may_be_tests

FailureClass = Literal["lint", "typecheck", "build", "test", "command"]

#: Programs, some with their first argument.
_PROGRAMS: Final[Mapping[str, FailureClass]] = {
    **dict.fromkeys((
        "ruff", "flake8", "pylint", "black", "isort", "bandit", "codespell", "lint-imports", "pre-commit", "yamllint",
        "eslint", "prettier", "biome", "oxlint", "stylelint", "golangci-lint", "staticcheck", "gofmt", "go vet", "go fmt",
        "cargo clippy", "cargo fmt", "clang-tidy", "clang-format", "cppcheck", "shellcheck", "rubocop", "phpcs",
    ), "lint"),
    **dict.fromkeys((
        "mypy", "dmypy", "pyright", "basedpyright", "pytype", "ty", "vue-tsc", "phpstan", "psalm", "cargo check",
    ), "typecheck"),
    **dict.fromkeys((
        "build", "compileall", "gcc", "g++", "clang", "javac", "mvn compile", "mvn package", "gradle build", "uv build",
    ), "build"),
}  # fmt: skip
#: Programs that start a script or target of the project, and names of those.
_RUNNERS: Final = ("npm", "pnpm", "yarn", "bun", "make", "gmake", "tox", "nox", "hatch", "just", "composer", "rake")
_TARGETS: Final[Mapping[str, FailureClass]] = {
    **dict.fromkeys(("lint", "style", "format", "fmt"), "lint"),
    **dict.fromkeys(("typecheck", "type-check", "check-types", "types", "typing", "tsc", "mypy"), "typecheck"),
    **dict.fromkeys(("build", "compile", "all"), "build"),
    **dict.fromkeys(("test", "tests"), "test"),
}
_NODE: Final = (("npx",), ("bunx",), ("pnpm", "exec"), ("yarn", "exec"), ("npm", "exec"))


def class_of(argv: Sequence[str], framework: str = "") -> FailureClass:
    """Return what ``argv`` checks. ``framework``: the test framework that was recognised when it ran; empty: none."""
    started = what_starts(argv)
    if framework or started is None:
        return "test" if framework else "command"
    words = [posixpath.basename(started.name), *started.words]
    for first in _NODE:
        if tuple(words[: len(first)]) == first:
            words = [*dropwhile(lambda word: word.startswith("-"), words[len(first) :])]
    program, arguments = words[0] if words else "", [word for word in words[1:] if not word.startswith("-")]
    if program == "tsc":
        return "typecheck" if "--noEmit" in words else "build"
    known = _PROGRAMS.get(program) or _PROGRAMS.get(" ".join((program, *arguments[:1])))
    if known is not None and not started.script:
        return known
    if program in _RUNNERS:
        targets = (_TARGETS.get(word.partition(":")[0]) for word in arguments)
        if (found := next((kind for kind in targets if kind is not None), None)) is not None:
            return found
    if builds(argv) or builds(words):
        return "build"
    if is_make(words):
        return "test" if target_of_make(words) else "command" if arguments else "build"
    return "test" if may_be_tests(argv) and not started.script else "command"
