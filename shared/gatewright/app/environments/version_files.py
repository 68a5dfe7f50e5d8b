"""Files of a Python project's version that its build writes and git does not have, as its settings name them.

``setuptools_scm``, ``hatch-vcs`` and ``pdm`` write such a file when the project is installed. ``--env auto`` never installs it,
so that the file is written here, from git's tags, in the form that these tools share. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.project_settings import read_toml
from gatewright.foreign_documents import table_of
from gatewright.patterns import TextPattern

#: Output of `git describe --tags --long`: the tag, with or without a name before it, and the number of later commits.
_DESCRIBED = TextPattern(
    r"[^0-9\n]{0,60}(?P<version>[0-9]{1,18}(?:\.[0-9]{1,18}){0,4})(?P<more>[0-9A-Za-z.+_-]{0,40})-(?P<after>[0-9]{1,18})-g[0-9a-f]+"
)
_NO_TAG = "0.1.dev0"
#: Settings that give such a file other content.
_OWN_WORDS = ("template", "version-file-template", "version_file_template", "write_to_template", "write_template")


async def version_files(tree: TreeFiles) -> tuple[str, ...]:
    """The files that a build of the project at the top of ``tree`` would write and the tree lacks."""
    content = await tree.read("pyproject.toml") if "pyproject.toml" in tree.paths else None
    named = (posixpath.normpath(path) for path in _named_versions(table_of(read_toml(content or b""), "tool")))
    folders = {posixpath.dirname(path) for path in tree.paths}
    places = (path for path in named if path.endswith(".py") and posixpath.dirname(path) in folders)
    return tuple(dict.fromkeys(path for path in places if path not in tree.paths))


def version_after(described: str) -> str:
    """The version of a commit that git describes so: that of its tag, or a development version of the next one."""
    found = _DESCRIBED.fullmatch(described.strip())
    if found is None:
        return _NO_TAG
    version, after = found["version"], int(found["after"] or 0)
    if not after:
        return version + found["more"]
    *first, last = version.split(".")
    return ".".join((*first, str(int(last) + 1), f"dev{after}"))


def version_file(version: str) -> bytes:
    """The content, with the names that such files have."""
    parts = ", ".join(part if part.isdigit() else repr(part) for part in version.split("."))
    names = (f"__version__ = version = {version!r}", f"__version_tuple__ = version_tuple = ({parts},)")
    return "\n".join((*names, "__commit_id__ = commit_id = None", "")).encode()


def _named_versions(tool: Mapping[str, Any]) -> Iterator[str]:
    scm = table_of(tool, "setuptools_scm")
    vcs = table_of(tool, "hatch", "build", "hooks", "vcs")
    pdm = table_of(tool, "pdm", "version")
    for table, keys in ((scm, ("version_file", "write_to")), (vcs, ("version-file",)), (pdm, ("write_to",))):
        if not any(each in table for each in _OWN_WORDS):
            yield from (table[key] for key in keys if isinstance(table.get(key), str))
