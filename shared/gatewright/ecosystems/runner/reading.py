"""Follows commands into the files of a tree: what ``commands.py`` finds in a makefile leads to npm's scripts, and back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from gatewright.ecosystems.runner.commands import CommandReads, read_makefile, read_scripts

#: The contents of those of some paths that are regular files of at most ``MOST_BYTES``.
Contents = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]

#: Makefiles that include each other, one after the other.
_MOST_INCLUDED = 5


async def what_is_read(commands: Iterable[Sequence[str]], contents: Contents) -> CommandReads:
    """Return the files that decide what ``commands`` run. Raises the errors of ``contents``."""
    reading = CommandReads()
    for words in commands:
        reading.command(words)
    # A makefile may call npm, and a script of npm make: one of each is looked into after the other, once more.
    for _ in range(2):
        if reading.scripts:
            manifest = (await contents(("package.json",))).get("package.json", b"{}")
            read_scripts(reading, _scripts(manifest))
        if reading.targets:
            await _read_makefiles(reading, contents)
    return reading


async def _read_makefiles(reading: CommandReads, contents: Contents) -> None:
    names: tuple[str, ...] = tuple(sorted(reading.files))
    for _ in range(_MOST_INCLUDED):
        found = await contents(names)
        names = tuple(sorted({name for content in found.values() for name in read_makefile(reading, content)}))
        if not names:
            break
    reading.targets.clear()


def _scripts(manifest: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError):
        return {}
    scripts = document.get("scripts") if isinstance(document, dict) else None
    return scripts if isinstance(scripts, dict) else {}
