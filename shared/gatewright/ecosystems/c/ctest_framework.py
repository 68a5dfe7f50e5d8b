"""CTest: our program replaces ``ctest`` and starts the real one with a report, from which it takes the tests."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.c.declarations import ProgramSource, SuiteProgram, draw_model, linked_files, models, write_source
from gatewright.ecosystems.planting import words
from gatewright.ecosystems.port import Instruments, PlainFramework, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_LISTS = "CMakeLists.txt"
_DECLARES = TextPattern(r"(?im)^\s*(?:add_test|\w*discover_tests|\w*add_\w*tests?)\s*\(")
_ENTERS = TextPattern(r"(?i)\badd_subdirectory\s*\(\s*[^\s)$]+")
_BUILDS = TextPattern(r"(?i)\badd_executable\s*\(\s*[A-Za-z0-9_.+-]+\s[^()]*\)")
#: Properties that the planted program copies from its model.
_SAME = (
    "LINK_LIBRARIES",
    "LINK_OPTIONS",
    "LINK_DIRECTORIES",
    "INCLUDE_DIRECTORIES",
    "COMPILE_DEFINITIONS",
    "COMPILE_OPTIONS",
    "COMPILE_FEATURES",
    "C_STANDARD",
    "CXX_STANDARD",
)
#: Options that choose among the tests.
_CHOOSING = ("-R", "-E", "-L", "-LE", "-I", "-FA", "--tests-", "--exclude-", "--label-", "--rerun-failed")
#: Files of declarations that are read.
_MOST_READ = 200


@dataclass(frozen=True, slots=True)
class CTest(PlainFramework):
    """See ``Framework``."""

    name: str = "ctest"
    languages: frozenset[str] = frozenset()
    reports_files: bool = False
    package_files: tuple[str, ...] = ()
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether the program is named plainly; with another path our program would not be found."""
        return bool(argv) and argv[0] == "ctest"

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        del argv, tree
        return program_in_place("ctest", "gatewright.ecosystems.c", order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A program with two tests, declared at the end of a file that declares tests, or of the one at the top."""
        if _LISTS not in tree.paths or any(word.startswith(_CHOOSING) for word in argv[1:]):
            return None
        paths = sorted(path for path in tree.paths if posixpath.basename(path) == _LISTS)[:_MOST_READ]
        texts = {path: await read_text(tree, path) for path in paths}
        declaring = [path for path in linked_files(texts, _LISTS, _ENTERS) if _DECLARES.is_in(texts[path])]
        place = draw.choice(declaring or [_LISTS])
        folder = posixpath.dirname(place)
        model = draw_model(models(texts[place], folder, tree, _BUILDS), texts[place], draw)
        source = await write_source(tree, folder, model, draw)
        failing, passing = ("_".join(words(draw)) for _ in range(2))
        text = texts[place] + _declare_tests(source, folder, model, failing, passing)
        return Sentinel({source.path: source.text.encode(), place: text.encode()}, f"{place}::{failing}", f"{place}::{passing}")


def _declare_tests(source: ProgramSource, folder: str, model: SuiteProgram | None, failing: str, passing: str) -> str:
    """Return the declarations, the failing test last: a command may stop at the first failure."""
    target = posixpath.splitext(posixpath.basename(source.path))[0]
    lines = ["", f"add_executable({target} {posixpath.relpath(source.path, folder or '.')})"]
    if model is not None:
        lines += [
            f"foreach(each {' '.join(_SAME)})",
            f"  get_target_property(value {model.target} ${{each}})",
            "  if(value)",
            f'    set_property(TARGET {target} PROPERTY ${{each}} "${{value}}")',
            "  endif()",
            "endforeach()",
            # Warnings about the included source of another program are irrelevant.
            f"target_compile_options({target} PRIVATE -w)",
        ]
    lines += [
        f"add_test(NAME {passing} COMMAND {target} {source.passing})",
        f"add_test(NAME {failing} COMMAND {target} {source.failing})",
    ]
    return "\n".join((*lines, ""))


CTEST = CTest()
