"""Compilation of Go before a command runs: the options that decide it, and the gaps of its cache.

Go's cache is keyed by the compiled content, the compiler and its options. It has two gaps, in packages with C or assembler:
files that these include from elsewhere in the repository are in no digest. A tree with such a package gets no cache. The
cache also holds test results; none exist here, because no test starts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gatewright.ecosystems.go.framework import GO_TEST, NOT_RUN, VALUED, option_of
from gatewright.ecosystems.make.framework import commands_of_make
from gatewright.ecosystems.port import TreeFiles

#: Below the home of a command.
CACHE: Final = ".cache/go-build"
#: Files that decide which modules are compiled.
MODULES: Final = frozenset({"go.mod", "go.sum", "go.work", "go.work.sum"})
#: The options of a command that decide how packages are compiled, and start no program.
_DECIDING: Final = frozenset({"-tags", "-race", "-msan", "-asan", "-mod", "-trimpath"})
#: The folders of packages in which something is included that no digest has.
_UNCOVERED: Final = "{{if or .CgoFiles .SFiles .SwigFiles .SwigCXXFiles}}{{.Dir}}{{end}}"


@dataclass(frozen=True, slots=True)
class GoBuild:
    """``options`` and packages of one command."""

    options: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def compiling(self) -> tuple[str, ...]:
        """Return the command that compiles and vets packages and tests as `go test` does, with ``true`` in place of each
        test."""
        return ("go", "test", *self.options, "-exec=true", "-count=1", *self.packages)

    @property
    def listing(self) -> tuple[str, ...]:
        """Lists the folders that ``keys_cover_files`` checks."""
        return ("go", "list", "-deps", "-test", *self.options, "-f", _UNCOVERED, *self.packages)


def keys_cover_files(listed: bytes, workspace: str) -> bool:
    """Return whether the cache keys include all compiled files of ``workspace``; modules do not change."""
    folders = listed.decode("utf-8", "replace").split("\n")
    return not any(posixpath.normpath(each).startswith(workspace) for each in folders)


async def go_build(argv: Sequence[str], tree: TreeFiles) -> GoBuild | None:
    """Return the build of the first `go test` that ``argv`` starts; None if it starts none by that name."""
    commands = (tuple(argv), *await commands_of_make(argv, tree))
    return next((_build(words) for words in commands if _is_plain_go_test(words)), None)


def _is_plain_go_test(words: Sequence[str]) -> bool:
    # In another folder (``-C``), packages have other names.
    return GO_TEST.may_start(words) and words[0] == "go" and not any(option_of(word) in {*NOT_RUN, "-C"} for word in words)


def _build(words: Sequence[str]) -> GoBuild:
    options: list[str] = []
    packages: list[str] = []
    left = list(words[2:])
    while left and option_of(word := left.pop(0)) != "-args":
        value = left[:1] if option_of(word) in VALUED and "=" not in word else []
        del left[: len(value)]
        if option_of(word) in _DECIDING:
            options += [word, *value]
        elif not word.startswith("-"):
            packages.append(word)
    return GoBuild(tuple(options), tuple(packages))
