"""Compiled modules that an environment has and the candidate has not: tests that fail for want of one prove nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gatewright.sandbox import Completed

_SITE = "lib/python*/site-packages"
#: Entries of one installed package that are looked at.
_MOST = 20_000


def missed_modules(
    prefixes: Iterable[Path], names: Iterable[str], present: Iterable[str], completed: Completed
) -> tuple[str, ...]:
    """``module -> place`` of compiled modules below ``names`` in ``prefixes`` that ``completed`` complains of. Blocks.

    ``present`` are the candidate's files: what it has compiled itself is not missed.
    """
    output = completed.stdout + completed.stderr
    here = {path.rpartition("/")[2].partition(".")[0] for path in present if path.endswith((".so", ".pyd"))}
    found = []
    for site in sorted(site for prefix in prefixes for site in prefix.glob(_SITE)):
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
        if seen > _MOST:
            return
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".so"))
