"""The declarations of a C or C++ suite's tests, and the style and files for planting another."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_CXX = (".cpp", ".cc", ".cxx")
SOURCES = (".c", *_CXX)
#: Sources that are looked at for the suite's style.
_MOST_READ = 40
_ASSERTS = TextPattern(r"\bassert\s*\(")
_TESTS = TextPattern(r"(?i)test")


class ProgramSource(NamedTuple):
    """A program at ``path`` that fails for the argument ``failing`` and succeeds for ``passing``."""

    path: str
    text: str
    failing: str
    passing: str


class SuiteProgram(NamedTuple):
    """A test program of the suite: the ``target`` that builds it, and the path of its ``source``."""

    target: str
    source: str


def linked_files(texts: Mapping[str, str], name: str, entering: TextPattern) -> list[str]:
    """Those of the files called ``name`` that the one at the top leads to, by calls that ``entering`` finds."""
    reached = [name] if name in texts else []
    entered = {path: {_argument(call) for call in entering.findall(text)} for path, text in texts.items()}
    for path in sorted(texts, key=lambda each: each.count("/")):
        folder = posixpath.dirname(path)
        above = next((each for each in reached if folder and _from(each, folder) in entered[each]), None)
        if above is not None:
            reached.append(path)
    return reached


def models(text: str, folder: str, tree: TreeFiles, building: TextPattern) -> list[SuiteProgram]:
    """The programs that ``text``, a file of declarations in ``folder``, builds from a source of the tree."""
    found = []
    for call in building.findall(text):
        target, *sources = call.partition("(")[2].rstrip(")").replace(",", " ").replace("'", " ").replace('"', " ").split()
        paths = [posixpath.normpath(posixpath.join(folder, source)) for source in sources]
        path = next((each for each in paths if each.endswith(SOURCES) and each in tree.paths), "")
        if path and "$" not in target:
            found.append(SuiteProgram(target, path))
    return found


async def write_source(tree: TreeFiles, folder: str, model: SuiteProgram | None, draw: Random) -> ProgramSource:
    """Return a program beside ``model``'s source, which it includes, so that it is linked and started like the suite.

    Without a model: a program in ``folder`` in the language of the sources there. It uses ``assert`` if they do, which a
    build may compile out.
    """
    if model is not None:
        looked_at = [model.source]
    else:
        sources = sorted(path for path in tree.paths if path.endswith(SOURCES))
        near = [path for path in sources if posixpath.dirname(path) == folder]
        looked_at = (near or [path for path in sources if _TESTS.is_in(path)] or sources)[:_MOST_READ]
    asserts = any([_ASSERTS.is_in(await read_text(tree, path)) for path in looked_at])
    ending = posixpath.splitext(looked_at[0])[1] if looked_at else ".c"
    place = folder if model is None else posixpath.dirname(model.source)
    taken = {posixpath.basename(path) for path in tree.paths}
    name = next(name for _ in range(1000) if (name := "_".join(words(draw)) + ending) not in taken)
    failing, passing, _ = words(draw)
    included = "" if model is None else posixpath.basename(model.source)
    text = _program(ending in _CXX, asserts, included, failing, draw)
    return ProgramSource(posixpath.join(place, name), text, failing, passing)


def _program(cxx: bool, asserts: bool, included: str, failing: str, draw: Random) -> str:
    one, other, right, wrong = sum_of(draw)
    headers = [*(["cassert" if cxx else "assert.h"] if asserts and not included else []), "cstring" if cxx else "string.h"]
    lines = [
        *(f"#include <{header}>" for header in headers),
        # The suite's own source, with its assert; its main, if any, is renamed and does not start.
        *(["#define main suite_main", f'#include "{included}"', "#undef main"] if included else []),
        "",
        "int main(int count, char **given)",
        "{",
        f'    int expected = count > 1 && strcmp(given[1], "{failing}") == 0 ? {wrong} : {right};',
        f"    volatile int total = {one};",
        f"    total = total + {other};",
        *(["    assert(total == expected);", "    return 0;"] if asserts else ["    return total == expected ? 0 : 1;"]),
        "}",
        "",
    ]
    return "\n".join(lines).replace(" strcmp(", " std::strcmp(" if cxx else " strcmp(")


def _argument(call: str) -> str:
    return call.partition("(")[2].strip(" \t\r\n\"'").rstrip("/")


def _from(path: str, folder: str) -> str:
    return posixpath.relpath(folder, posixpath.dirname(path) or ".")


def draw_model(found: Sequence[SuiteProgram], declarations: str, draw: Random) -> SuiteProgram | None:
    """Return a random program of ``found`` that is declared as a test; None if none is."""
    tested = [model for model in found if declarations.count(model.target) > 1]
    return draw.choice(tested) if tested else None
