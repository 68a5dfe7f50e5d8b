"""A program: compiles sources of the workspace as Python does, or as pytest does, and runs none of them.

Its argument is a file with ``sources`` (for each: path, whether pytest rewrites it, whether it is wanted), ``begin`` (some
of their paths), ``roots`` (folders in which modules are searched), and ``least`` (bytes of sources below which it does
nothing). It compiles the wanted sources that ``begin`` reaches by ``import`` statements in the text. The results are in
``OUTPUT`` below the workspace: one file for each source, named by its number and its name in ``__pycache__``; none for a
source that cannot be compiled.
"""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import py_compile
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

#: The folder of the results, in the working directory.
OUTPUT = "gatewright-bytecode"
#: Maximum number of sources, processes that share them, and bytes of the number of the next source.
MOST = 4000
PROCESSES = 4
_WIDTH = 4
_FROM = rb"from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^()]*\)|[^\n]*)"
# Linear: what repeats ends at what begins the next.
_IMPORT = re.compile(rb"^[ \t]*(?:" + _FROM + rb"|import[ \t]+([^\n]+))", re.MULTILINE)  # noqa: TID251


def main(place: str) -> None:
    """Compile what the file ``place`` orders."""
    order = json.loads(Path(place).read_bytes())
    sources = order["sources"]
    reached = _reached([path for path, _, _ in sources], order["begin"], order["roots"])
    numbers = [number for number in reached if sources[number][2]][:MOST]
    if sum(Path(sources[number][0]).stat().st_size for number in numbers) < order["least"]:
        return
    Path(OUTPUT).mkdir()
    if any(sources[number][1] for number in numbers):
        import _pytest.assertion.rewrite  # noqa: F401 - once, for all processes
    _share(numbers, sources)


def _share(numbers: Sequence[int], sources: Sequence[Any]) -> None:
    """Let each process take the next source: when the time is over, only the last few are unfinished."""
    here = os.getcwd()  # noqa: PTH109 - as the interpreter itself calls it
    reading, writing = os.pipe()
    children = []
    for _ in range(min(len(os.sched_getaffinity(0)), PROCESSES)):
        try:
            child = os.fork()
        except OSError:  # a limit of processes
            break
        if not child:
            os.close(writing)
            while taken := os.read(reading, _WIDTH):
                _compile(int.from_bytes(taken, "little"), sources, here)
            os._exit(0)
        children.append(child)
    os.close(reading)
    if not children:
        os.close(writing)
        for number in numbers:
            _compile(number, sources, here)
        return
    with os.fdopen(writing, "wb") as file:
        file.write(b"".join(number.to_bytes(_WIDTH, "little") for number in numbers))
    for child in children:
        os.waitpid(child, 0)


def _compile(number: int, sources: Sequence[Any], here: str) -> None:
    path, rewritten, _ = sources[number]
    source = Path(here, path)
    made = Path(OUTPUT, f".{number}")
    try:
        name = _rewritten(source, made) if rewritten else _compile_file(source, made)
    except Exception:  # noqa: BLE001 - a source that fails here is compiled when it is imported
        return
    made.replace(Path(OUTPUT, f"{number}-{name}"))


def _compile_file(source: Path, made: Path) -> str:
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(str(source), cfile=str(made), dfile=str(source), doraise=True, invalidation_mode=mode)
    return Path(importlib.util.cache_from_source(str(source))).name


def _rewritten(source: Path, made: Path) -> str:
    """Compile with pytest's own functions, which add its own metadata of the source."""
    from _pytest.assertion import rewrite

    rewriting: Any = rewrite
    noted, code = rewriting._rewrite_test(source, None)  # noqa: SLF001 - there is no other way to its bytecode
    with made.open("wb") as file:
        rewriting._write_pyc_fp(file, noted, code)  # noqa: SLF001
    return source.stem + str(rewriting.PYC_TAIL)


def _reached(paths: Sequence[str], begin: Sequence[str], roots: Sequence[str]) -> list[int]:
    """The numbers of ``begin`` and of what it imports, in the order in which they are found."""
    numbers = {path: number for number, path in enumerate(paths)}
    found = dict.fromkeys(numbers[path] for path in begin if path in numbers)
    left = list(found)
    for number in left:  # grows
        for path in _imported(paths[number], numbers, roots):
            if (other := numbers[path]) not in found:
                found[other] = None
                left.append(other)
    return left


def _imported(path: str, numbers: Mapping[str, int], roots: Sequence[str]) -> Iterator[str]:
    own = posixpath.dirname(path)
    try:
        text = Path(path).read_bytes()
    except OSError:
        return
    for module, names, modules in _IMPORT.findall(text):
        if module:
            dotted = module.decode("ascii", "replace")
            more = [f"{dotted.rstrip('.')}.{name}" if dotted.strip(".") else dotted + name for name in _parse_names(names)]
            wanted = [dotted, *more]
        else:
            wanted = _parse_names(modules)
        for each in wanted:
            bare = each.lstrip(".")
            above = own
            for _ in range(len(each) - len(bare) - 1):
                above = posixpath.dirname(above)
            for folder in (above,) if each != bare else (*roots, "", own):
                yield from _module_files(folder, bare, numbers)


def _parse_names(text: bytes) -> list[str]:
    words = [word.split() for word in text.strip().strip(b"()").split(b",")]
    return [word[0].decode("ascii", "replace") for word in words if word]


def _module_files(folder: str, dotted: str, numbers: Mapping[str, int]) -> Iterator[str]:
    place = folder
    for part in filter(None, dotted.split(".")):
        place = posixpath.join(place, part)
        for path in (f"{place}/__init__.py", f"{place}.py"):
            if path in numbers:
                yield path


if __name__ == "__main__":
    main(sys.argv[1])
