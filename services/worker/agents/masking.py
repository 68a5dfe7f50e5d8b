"""Hides from an agent the configuration of agents that the repository holds: commands and servers that it would obey."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror


def masking(masked: Iterable[str]) -> Callable[[bytes], bool]:
    """Return a test for paths that have one of these names, or are below one, case-insensitively."""
    names = {name.encode().lower() for name in masked}
    return lambda path: not names.isdisjoint(path.lower().split(b"/"))


async def without_masked(mirror: Mirror, tree: str, masked: Iterable[str]) -> str:
    """``tree`` (or that of a commit) without the files that are, or lie in a folder, of these names at any depth.

    The change that an agent makes is compared with this tree and written over the whole one: what is hidden stays as it is.
    """
    is_masked = masking(masked)
    entries = await mirror.files(await mirror.tree_of(tree), ())
    hidden = [entry.path for entry in entries if is_masked(entry.path)]
    if not hidden:
        return await mirror.tree_of(tree)
    return await mirror.write_tree(tree, [FileChange(path, None) for path in hidden])
