"""What Go may build before a command runs, by the compiler alone: which words say what, and what its cache does not see.

Go's cache is kept by the contents of what was compiled, by the compiler and its options. It has two gaps, of packages with C or
assembler: files that these include from elsewhere in the repository are in no digest. A tree that has such a package gets no
cache. Results of tests are in it as well; none comes to be here, because no test is started.
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
#: Files that say which modules are compiled.
MODULES: Final = frozenset({"go.mod", "go.sum", "go.work", "go.work.sum"})
#: Of what the words of a command say, this decides how packages are compiled, and starts no program.
_DECIDING: Final = frozenset({"-tags", "-race", "-msan", "-asan", "-mod", "-trimpath"})
#: The folders of packages in which something is included that no digest has.
_UNTOLD: Final = "{{if or .CgoFiles .SFiles .SwigFiles .SwigCXXFiles}}{{.Dir}}{{end}}"


@dataclass(frozen=True, slots=True)
class GoBuild:
    """``options`` and packages of one command."""

    options: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def compiling(self) -> tuple[str, ...]:
        """Compiles the packages and their tests, looks at them as `go test` does, and has ``true`` stand for each test."""
        return ("go", "test", *self.options, "-exec=true", "-count=1", *self.packages)

    @property
    def listing(self) -> tuple[str, ...]:
        """Lists the folders that ``is_told`` looks at."""
        return ("go", "list", "-deps", "-test", *self.options, "-f", _UNTOLD, *self.packages)


def is_told(listed: bytes, workspace: str) -> bool:
    """Whether all that is compiled of ``workspace`` is in the digests by which the cache is kept; modules do not change."""
    folders = listed.decode("utf-8", "replace").split("\n")
    return not any(posixpath.normpath(each).startswith(workspace) for each in folders)


async def go_build(argv: Sequence[str], tree: TreeFiles) -> GoBuild | None:
    """What the first `go test` that ``argv`` starts has compiled; None when it starts none by that name."""
    commands = (tuple(argv), *await commands_of_make(argv, tree))
    return next((_build(words) for words in commands if _is_told(words)), None)


def _is_told(words: Sequence[str]) -> bool:
    # In another folder, ``-C``, packages are called otherwise.
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
