"""Meson: our program replaces ``meson`` and takes the tests from the log that ``meson test`` writes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.c.declarations import SuiteProgram, draw_model, linked_files, models, write_source
from gatewright.ecosystems.planting import words
from gatewright.ecosystems.port import Instruments, PlainFramework, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_BUILD = "meson.build"
_DECLARES = TextPattern(r"(?m)^\s*test\s*\(")
_ENTERS = TextPattern(r"(?m)^\s*subdir\s*\(\s*'[^'\n]+'")
_BUILDS = TextPattern(r"\bexecutable\s*\(\s*'[^'\n]+'\s*,\s*'[^'\n]+'[^()]*\)")
_VALUED = frozenset({"-C", "-j", "-t", "--num-processes", "--timeout-multiplier", "--maxfail", "--suite", "--no-suite"})
_MOST_READ = 200


@dataclass(frozen=True, slots=True)
class MesonTest(PlainFramework):
    """See ``Framework``."""

    name: str = "meson test"
    languages: frozenset[str] = frozenset()
    reports_files: bool = False
    package_files: tuple[str, ...] = ()
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether the program is named plainly; with another path our program would not be found."""
        return list(argv[:2]) == ["meson", "test"]

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        del argv, tree
        return program_in_place("meson", "gatewright.ecosystems.c", order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A program with two tests, declared at the end of a file that declares tests, or of the one at the top."""
        if _BUILD not in tree.paths or _chooses(argv):
            return None
        paths = sorted(path for path in tree.paths if posixpath.basename(path) == _BUILD)[:_MOST_READ]
        texts = {path: await read_text(tree, path) for path in paths}
        declaring = [path for path in linked_files(texts, _BUILD, _ENTERS) if _DECLARES.is_in(texts[path])]
        place = draw.choice(declaring or [_BUILD])
        folder = posixpath.dirname(place)
        model = draw_model(models(texts[place], folder, tree, _BUILDS), texts[place], draw)
        source = await write_source(tree, folder, model, draw)
        failing, passing = ("_".join(words(draw)) for _ in range(2))
        target = "_".join(words(draw))
        rule = _build_rule(texts[place], model, target, posixpath.relpath(source.path, folder or "."))
        text = (
            f"{texts[place]}\n{target} = {rule}\n"
            f"test('{passing}', {target}, args: ['{source.passing}'])\n"
            f"test('{failing}', {target}, args: ['{source.failing}'])\n"
        )
        files = {source.path: source.text.encode(), place: text.encode()}
        return Sentinel(files, f"{_BUILD}::{failing}", f"{_BUILD}::{passing}")


def _build_rule(text: str, model: SuiteProgram | None, target: str, source: str) -> str:
    """Return the build rule of the planted program: that of ``model`` with another name and source."""
    if model is None:
        return f"executable('{target}', '{source}')"
    call = next(each for each in _BUILDS.findall(text) if f"'{model.target}'" in each)
    rest = call.split("'", 4)[4].rstrip(") \t\n").rstrip(",")
    quiet = "" if "override_options" in rest else ", override_options: ['werror=false', 'warning_level=0']"
    return f"executable('{target}', '{source}'{rest}{quiet})"


def _chooses(argv: Sequence[str]) -> bool:
    left = list(argv[2:])
    while left:
        word = left.pop(0)
        if word.partition("=")[0] in {"--suite", "--no-suite", "--benchmark"} or not word.startswith("-"):
            return True
        if word in _VALUED:
            del left[:1]
    return False


MESON_TEST = MesonTest()
