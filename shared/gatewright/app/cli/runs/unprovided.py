"""Modules that commands missed in packages of the repository, and that git has no file for: made by a build, mostly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gatewright.errors import DeniedError
from gatewright.git.tracked import is_tracked
from gatewright.view.run_view import OutputTail

#: What Python says of a module that a package of the repository should have.
_MISSED = re.compile(r"No module named '([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){1,9})'")  # noqa: TID251 - linear: each part is bounded
_ROOTS = ("src", "", "lib")


def missed_modules(tails: Sequence[OutputTail]) -> tuple[str, ...]:
    """Modules inside of packages that were asked for in vain, each once."""
    return tuple(dict.fromkeys(found[1] for tail in tails for line in tail.lines for found in _MISSED.finditer(line)))


def unprovided_files(repository: str, modules: Sequence[str]) -> tuple[str, ...]:
    """The places of such ``modules`` in packages of ``repository``, a folder of this host, where git tracks nothing. Blocks."""
    top = Path(repository)
    return tuple(_places(top, modules)) if top.is_absolute() and top.is_dir() else ()


def provide_options(repository: str, places: Sequence[str]) -> tuple[str, ...]:
    """The options that provide those of ``places`` that the checkout ``repository`` has. Blocks."""
    return tuple(word for place in places if (Path(repository) / place).is_file() for word in ("--provide", place))


def _places(top: Path, modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        package, _, name = module.replace(".", "/").rpartition("/")
        for root in _ROOTS:
            folder = f"{root}/{package}".lstrip("/")
            if (top / folder / "__init__.py").is_file():
                path = f"{folder}/{name}.py"
                if not _is_tracked(top, path):
                    yield path
                break


def _is_tracked(top: Path, path: str) -> bool:
    try:
        return is_tracked(top, path)
    except DeniedError:
        return True
