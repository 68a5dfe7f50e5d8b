"""A role's view of a repository: a bounded listing, descriptive files, and the commands that test it.

Read from objects, never from a checkout; nothing runs. All of it is untrusted text, and is passed on as such.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright.ecosystems.detection import proposed_commands
from gatewright.ecosystems.port import TreeFiles
from gatewright.prompts.prompt import fence_text

#: Maximum paths of a listing; a larger tree is listed by directory, with the number of files below each.
MAX_LISTED = 400
MAX_FILES = 12
MAX_FILE_CHARACTERS = 12_000
MAX_CHARACTERS = 80_000
_MANIFESTS = (
    *("pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "Makefile", "pom.xml", "build.gradle"),
    *("build.gradle.kts", "CMakeLists.txt", "tox.ini", "pytest.ini"),
)
_NOT_IN_WORDS = ".,:;!?()[]{}<>\"'`"


@dataclass(frozen=True, slots=True)
class RepositoryView:
    """``listing``: lines; ``files``: path and text; ``tests``: the commands that were detected, the best one first."""

    listing: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def blocks(self) -> list[str]:
        """The view as fenced data."""
        return [
            fence_text("the files of the repository", "\n".join(self.listing)),
            *(fence_text(path, text) for path, text in self.files),
        ]


async def look_at(tree: TreeFiles, words: str, below: Sequence[str] = ()) -> RepositoryView:
    """Return the parts of ``tree`` relevant to ``words``; paths ``below`` are listed first. Raises the errors of ``tree``."""
    files: list[tuple[str, str]] = []
    room = MAX_CHARACTERS
    for path in _relevant_files(tree.paths, words):
        if len(files) == MAX_FILES or room <= 0:
            break
        content = await tree.read(path)
        if content is None or b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")[: min(room, MAX_FILE_CHARACTERS)]
        files.append((path, text))
        room -= len(text)
    return RepositoryView(listing_of(tree.paths, below), tuple(files), await proposed_commands(tree))


def listing_of(paths: Iterable[str], below: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the paths, sorted; of too many only directories, and the files of the top. Paths ``below`` come first."""
    tree = sorted(paths)
    if len(tree) <= MAX_LISTED:
        return tuple(tree)
    inside = [path for path in tree if any(path == top or path.startswith(f"{top}/") for top in below)][: MAX_LISTED // 2]
    depth = 3
    while depth > 1 and len(_folders(tree, depth)) > MAX_LISTED // 2:
        depth -= 1
    folders = [f"{folder}/ ({count} files)" for folder, count in sorted(_folders(tree, depth).items())]
    top = [path for path in tree if "/" not in path]
    return (*inside, *top, *folders)[:MAX_LISTED]


def _folders(tree: Iterable[str], depth: int) -> Counter[str]:
    return Counter("/".join(path.split("/")[:-1][:depth]) for path in tree if "/" in path)


def _relevant_files(paths: Iterable[str], words: str) -> list[str]:
    """Return files that the words name, then those that describe the repository."""
    known = sorted(paths)
    named = {word.strip(_NOT_IN_WORDS).removeprefix("./") for word in words.split()[:2000]} - {""}
    stems = {word.rpartition(".")[0] or word for word in named}
    exact = [path for path in known if path in named or posixpath.basename(path) in named]
    likely = [path for path in known if posixpath.basename(path).partition(".")[0] in stems and path not in exact]
    about = [path for path in known if "/" not in path and path.lower().startswith("readme")]
    manifests = [name for name in _MANIFESTS if name in set(known)]
    return list(dict.fromkeys([*exact[:6], *about[:1], *manifests, *likely[:6]]))
