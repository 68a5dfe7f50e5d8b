"""Tools that check sources, and programs that make starts, in which no test is known: what each says of an error it must find.

They prove no test, and are never counted as one. What can be shown is that they look at a file of the change: with an error
planted in it that no rule of theirs can be without (a type that cannot be, text that cannot be read) they have to fail and to
name it. Of programs in C that a makefile builds and starts: that they are made of the change, and that the command fails when
one of them does. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.ecosystems.make.framework import target_of_make
from gatewright.ecosystems.python.command import PROJECT_RUNNERS

#: What runs another program: the words before it are passed by.
_RUNS = (
    *(*PROJECT_RUNNERS, ("hatch", "run")),
    *(("python", "-m"), ("python3", "-m"), ("npx", "--no-install"), ("npx",), ("pnpm", "exec"), ("yarn", "exec")),
)


@dataclass(frozen=True, slots=True)
class SourceChecker:
    """``words`` start it, ``endings`` are those of its files; ``error`` is text at the end of one, with a name in it."""

    words: tuple[str, ...]
    endings: tuple[str, ...]
    error: str
    #: Files that it passes by unless it is asked for them.
    apart: tuple[str, ...] = ()
    #: Whether the error is one of a program that runs, and says where it is: make itself names each file that is compiled.
    runs: bool = False

    @property
    def name(self) -> str:
        """For people, and in the bundle."""
        return " ".join(self.words)

    @property
    def tool(self) -> str:
        """What the table of suppressions calls it."""
        return self.words[-1] if self.words[0] == "cargo" else self.words[0]

    def looks_at(self, path: str) -> bool:
        """Whether a file of this name is one of its language."""
        return path.endswith(self.endings) and not path.endswith(".d.ts") and not path.startswith(self.apart)

    def planted(self, content: bytes, name: str) -> bytes:
        """``content`` with the error; ``name`` is new."""
        return content.rstrip(b"\n") + b"\n\n" + self.error.format(name=name).encode() + b"\n"

    def names(self, output: bytes, path: str, name: str) -> bool:
        """Whether ``output`` tells the error ``name`` that was planted in ``path``."""
        told = posixpath.basename(path) + (f":{name}" if self.runs else "")
        return told.encode() in output


_CHECKERS = (
    SourceChecker(("ruff", "check"), (".py",), "{name} is = text that cannot be read"),
    SourceChecker(("mypy",), (".py",), '{name}: int = "planted"'),
    SourceChecker(("tsc",), (".ts", ".tsx"), 'const {name}: number = "planted";'),
    SourceChecker(("go", "vet"), (".go",), 'var {name} int = "planted"', ("vendor/", "testdata/")),
    SourceChecker(("cargo", "clippy"), (".rs",), 'const {name}: i32 = "planted";', ("tests/", "benches/", "examples/")),
)


#: Before main, and by no header: what GCC and Clang have built in.
_LEAVES = '__attribute__((constructor)) static void {name}(void) {{ __builtin_puts(__FILE__ ":{name}"); __builtin_exit(97); }}'


def checker_of(argv: Sequence[str]) -> SourceChecker | None:
    """The one that ``argv`` starts; None for any other program, and for one that changes files or only tells of itself."""
    words = tuple(argv)
    if (target := target_of_make(words)) is not None:
        return SourceChecker(("make", target), (".c", ".cc", ".cpp", ".cxx"), _LEAVES, runs=True)
    for before in _RUNS:
        if words[: len(before)] == before:
            words = words[len(before) :]
    words = (posixpath.basename(words[0]), *words[1:]) if words else ()
    if any(word in {"--fix", "--version", "--help", "--exit-zero", "--add-noqa"} for word in words):
        return None
    return next((each for each in _CHECKERS if words[: len(each.words)] == each.words), None)
