"""Source checkers, and programs that make starts without a known test framework, with the error that each must report.

They prove no test, and are never treated as one. They can only be shown to read a changed file: with a planted error that
no rule set can ignore (an impossible type, unparsable text), they must fail and name it. C programs that a makefile builds
and starts are shown to be built from the change, and to make the command fail when they fail. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.ecosystems.make.framework import target_of_make
from gatewright.ecosystems.python.command import PROJECT_RUNNERS

#: Programs that run another program; the words before it are skipped.
_RUNS = (
    *(*PROJECT_RUNNERS, ("hatch", "run")),
    *(("python", "-m"), ("python3", "-m"), ("npx", "--no-install"), ("npx",), ("pnpm", "exec"), ("yarn", "exec")),
)


@dataclass(frozen=True, slots=True)
class SourceChecker:
    """A checker: ``words`` start it, ``endings`` are those of its files; ``error`` is text to append to one, with a name in
    it."""

    words: tuple[str, ...]
    endings: tuple[str, ...]
    error: str
    #: Files that it skips unless they are named.
    apart: tuple[str, ...] = ()
    #: Whether the error is raised by a running program with its position: make itself names each compiled file.
    runs: bool = False

    @property
    def name(self) -> str:
        """Return the name for people and the bundle."""
        return " ".join(self.words)

    @property
    def tool(self) -> str:
        """Return its name in the table of suppressions."""
        return self.words[-1] if self.words[0] == "cargo" else self.words[0]

    def looks_at(self, path: str) -> bool:
        """Return whether a file name is in its language."""
        return path.endswith(self.endings) and not path.endswith(".d.ts") and not path.startswith(self.apart)

    def planted(self, content: bytes, name: str) -> bytes:
        """``content`` with the error; ``name`` is new."""
        return content.rstrip(b"\n") + b"\n\n" + self.error.format(name=name).encode() + b"\n"

    def names(self, output: bytes, path: str, name: str) -> bool:
        """Return whether ``output`` reports the error ``name`` that was planted in ``path``."""
        location = posixpath.basename(path) + (f":{name}" if self.runs else "")
        return location.encode() in output


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
    """Return the checker that ``argv`` starts; None for other programs, and for checkers that modify files or print only
    help."""
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
