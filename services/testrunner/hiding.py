"""New modules of the candidate with the names of installed ones: tests would use the change's own instead.

A module found before the installed one, or before the standard library's, is used by the runner and every test: for example a
checker that always passes. No planted test detects it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.import_roots import hiding_modules, import_roots
from gatewright.sandbox.environments import Environments

_SITES = ("lib/python*/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages")
_SYSTEM = Path("/usr")
#: Of the standard library: a common name for a folder of tests, and nothing that a runner asks for.
_HARMLESS = frozenset({"test", "this", "antigravity"})
_MOST = 100


async def new_names(before: TreeFiles, now: TreeFiles) -> dict[str, str]:
    """Top-level modules that the candidate ``now`` has and the baseline ``before`` has not: name -> path."""
    roots = await import_roots(now)
    old = await import_roots(before)
    known = {*hiding_modules(before.paths, old), *(name.partition(".")[0] for name in old.names)}
    return {name: path for name, path in hiding_modules(now.paths, roots).items() if name not in known}


def new_twins(before: TreeFiles, now: TreeFiles) -> tuple[str, ...]:
    """New packages and compiled modules in the place of a source of the same name beside them, in words. Blocks.

    Python takes them and passes the source by; what is built from the project may have the source.
    """
    found = []
    for path in sorted(now.paths - before.paths):
        folder, _, name = path.removesuffix("/__init__.py").rpartition("/")
        source = f"{folder}/{name.partition('.')[0]}.py".lstrip("/")
        stands_before = path.endswith(("/__init__.py", ".so", ".pyd"))
        if stands_before and source in now.paths and source in before.paths:
            found.append(f"{path} (new, and in the place of {source}: take one of them away)")
    return tuple(found[:_MOST])


def hidden_by(names: dict[str, str], shown: Environments | None) -> tuple[str, ...]:
    """Those of ``names`` that are installed in what is ``shown``, or of the standard library, in words. Blocks."""
    sites = list(_sites(shown)) if names else []
    found = []
    for name, path in sorted(names.items()):
        place = next((str(each) for site in sites if (each := _installed_place(site, name)) is not None), "")
        if not place and name in sys.stdlib_module_names - _HARMLESS:
            place = "the standard library"
        if place:
            found.append(f"{path} (new, and in the place of {name} of {place}: give it another name)")
    return tuple(found[:_MOST])


def _sites(shown: Environments | None) -> Iterable[Path]:
    prefixes: tuple[Path, ...] = shown.prefixes if shown is not None else ()
    if shown is not None and shown.image is not None:
        prefixes += (shown.image.files / "usr", shown.image.files / "usr/local")
    for prefix in prefixes or (_SYSTEM, _SYSTEM / "local"):
        for pattern in _SITES:
            yield from sorted(prefix.glob(pattern))


def _installed_place(site: Path, name: str) -> Path | None:
    for place in (site / name / "__init__.py", site / f"{name}.py"):
        if place.is_file():
            return place
    return next(iter(sorted(site.glob(f"{name}.*.so"))), None)
