"""Code of the candidate and of its environment in each other's place: what tests use may not be what the name promises.

A new module found before the installed one, or before the standard library's, is used by the runner and every test: for example
a checker that always passes. No planted test detects it.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import sys
from collections.abc import Iterable
from pathlib import Path

from gatewright.ecosystems.node.members import copies_of_members, members_of
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.import_roots import hiding_modules, import_roots
from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirror
from gatewright.git.mirror_tree import list_tree
from gatewright.rules.reports.proof import SHADOWED
from gatewright.sandbox import Completed
from gatewright.sandbox.environments import Environments
from gatewright.tasks.inputs import refuse_taken_places

_SITES = ("lib/python*/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages")
_SYSTEM = Path("/usr")
#: Of the standard library: a common name for a folder of tests, and nothing that a runner asks for.
_HARMLESS = frozenset({"test", "this", "antigravity"})
_MOST = 100
#: Entries of one installed package that are looked at.
_MOST_ENTRIES = 20_000


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


def missed_modules(
    prefixes: Iterable[Path], names: Iterable[str], present: Iterable[str], completed: Completed
) -> tuple[str, ...]:
    """``module -> place`` of compiled modules below ``names`` in ``prefixes`` that ``completed`` complains of. Blocks.

    ``present`` are the candidate's files: what it has compiled itself is not missed.
    """
    output = completed.stdout + completed.stderr
    here = {path.rpartition("/")[2].partition(".")[0] for path in present if path.endswith((".so", ".pyd"))}
    found = []
    for site in sorted(site for prefix in prefixes for site in prefix.glob(_SITES[0])):
        for name in sorted(names):
            for place in _compiled_files(site / name.replace(".", "/")):
                module = place.name.partition(".")[0]
                dotted = ".".join((*place.parent.relative_to(site).parts, module))
                wanted = (f"No module named '{dotted}'", f"cannot import name '{module}'")
                if module not in here and any(words.encode() in output for words in wanted):
                    found.append(f"{dotted} -> {place} (compiled, and not built from the candidate)")
    return tuple(found)


def _compiled_files(package: Path) -> Iterable[Path]:
    seen = 0
    for folder, _, files in os.walk(package):
        seen += len(files)
        if seen > _MOST_ENTRIES:
            return
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".so"))


async def refuse_shadowing(shown: Environments | None, mirror: Mirror, tree: str) -> None:
    """DeniedError (``environment_shadows_candidate``).

    1. the candidate ``tree`` has no file in a place where an environment is shown: it would not be seen
    2. no packages of Node hold a copy of a workspace that the candidate has: its tests would import that.
    """
    if shown is None or not shown.mounts():
        return
    await refuse_taken_places(shown, mirror, tree, SHADOWED)  # 1
    tops = ("", *(posixpath.dirname(place) for _, place in shown.mounts()))
    members = await members_of(await list_tree(mirror, tree), tops)
    copies = await asyncio.to_thread(copies_of_members, shown.mounts(), members)  # 2
    if copies:
        words = "; ".join(f"{name} -> {place}, and not the candidate's {folder}" for name, place, folder in copies)
        raise DeniedError(f"{words}: install with a link to it (npm ci does, with workspaces)", code=SHADOWED)
