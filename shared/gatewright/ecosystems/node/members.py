"""The packages of a repository that its other packages import by name: npm's, yarn's and pnpm's workspaces."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path

from gatewright.ecosystems.node.commands import manifest_of
from gatewright.ecosystems.node.globs import glob_pattern
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import below
from gatewright.patterns import BytesPattern, TextPattern

PACKAGES = "node_modules"
MANIFEST = "package.json"
_PNPM = "pnpm-workspace.yaml"
_PNPM_ENTRY = BytesPattern(rb"""(?m)^[ \t]*-[ \t]*["']?([^"'#\s]+)["']?[ \t]*(?:#.*)?$""")
_MOST = 2000
#: Characters of a glob.
_LONGEST = 300


async def members_of(tree: TreeFiles, tops: Iterable[str] = ("",)) -> dict[str, str]:
    """Return the folder of each package by name, from the workspaces of each package.json in the folders ``tops``."""
    found: dict[str, str] = {}
    for top in sorted(set(tops)):
        globs = await workspace_globs(below(tree, top))
        for folder in member_folders(tree, top, globs) if globs else ():
            name = (await manifest_of(below(tree, folder))).get("name")
            if isinstance(name, str) and name:
                found[name] = folder
    return found


async def workspace_globs(tree: TreeFiles) -> tuple[str, ...]:
    """Return the workspace patterns of the package at the top of ``tree``, including negations."""
    given = (await manifest_of(tree)).get("workspaces")
    if isinstance(given, dict):
        given = given.get("packages")
    found = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    if _PNPM in tree.paths:
        content = await tree.read(_PNPM) or b""
        found += [each.decode("utf-8", "replace") for each in _PNPM_ENTRY.groups(content)]
    return tuple(each for each in found[:_MOST] if len(each) <= _LONGEST)


def member_folders(tree: TreeFiles, top: str, globs: Iterable[str]) -> tuple[str, ...]:
    """Folders with a package.json below ``top`` that the globs mean."""
    wanted = [TextPattern(glob_pattern(posixpath.normpath(each))) for each in globs if not each.startswith("!")]
    refused = [TextPattern(glob_pattern(posixpath.normpath(each[1:]))) for each in globs if each.startswith("!")]
    found = []
    for path in sorted(tree.paths):
        folder, name = posixpath.split(path)
        if name != MANIFEST or folder == top or not (not top or folder.startswith(f"{top}/")):
            continue
        inside = posixpath.relpath(folder, top or ".")
        if PACKAGES in inside.split("/") or any(each.fullmatch(inside) is not None for each in refused):
            continue
        if any(each.fullmatch(inside) is not None for each in wanted):
            found.append(folder)
    return tuple(found[:_MOST])


def copies_of_members(mounts: Iterable[tuple[Path, str]], members: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """(Name, place, folder of the candidate) of each member that a folder of packages has otherwise than by a link to it.

    ``mounts`` are (folder of the host, place in the repository) pairs. Blocks.
    """
    found = []
    for source, place in mounts:
        if posixpath.basename(place) != PACKAGES:
            continue
        for name, folder in members.items():
            installed = source / name
            if not os.path.lexists(installed):
                continue
            shown = posixpath.join(place, name)
            target = str(installed.readlink()) if installed.is_symlink() else ""
            if not target or posixpath.normpath(posixpath.join(posixpath.dirname(shown), target)) != folder:
                found.append((name, shown, folder))
    return tuple(found)
