"""The attributes of paths in a tree, as git reads them from the tree's own ``.gitattributes``.

The mirror's own attributes would override them. So git runs in an empty repository beside the mirror, which borrows the
mirror's objects and has an index of the attribute files only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gatewright.errors import GitError
from gatewright.git.attributes.stored_form import Attributes
from gatewright.git.changes import Node
from gatewright.git.command import GitCommand
from gatewright.git.index_cache import IndexCache
from gatewright.git.modes import DIRECTORY, REGULAR

#: Bytes of all files of attributes that a question may meet, and seconds for its answer: git tries each line on each path.
MOST_BYTES = 1 << 20
SECONDS = 20.0
_FILE = b".gitattributes"
_NAMES = ("text", "crlf", "eol", "working-tree-encoding", "ident", "filter")

#: Ids of trees -> the direct entries of each.
Directories = Callable[[Iterable[str]], Mapping[str, tuple[Node, ...]]]


class AttributeReader:
    """Reads attributes in the mirror of ``git``; ``directory`` holds the auxiliary repository."""

    def __init__(self, git: GitCommand, directory: Path, indexes: IndexCache) -> None:
        self._git = git
        self._beside = directory / "attributes.git"
        self._indexes = indexes

    def read(
        self, tree: str, paths: Sequence[bytes], directories: Directories, sizes: Callable[[Iterable[str]], Mapping[str, int]]
    ) -> Mapping[bytes, Attributes]:
        """Return the attributes of ``paths`` of ``tree``; empty if no attribute file applies.

        Raises GitError (``attributes_too_large``, ``git_timeout``).
        """
        files = _attribute_files(tree, paths, directories)
        if not files:
            return {}
        total = sum(sizes(node.object_id for _, node in files).values())
        if total > MOST_BYTES:
            raise GitError(f"the files of attributes have {total} bytes, more than {MOST_BYTES}", code="attributes_too_large")
        git = self._make_repository(len(tree))
        objects = {"GIT_OBJECT_DIRECTORY": str(self._git.git_dir / "objects")}
        listed = b"".join(b"%s %s\t%s\0" % (node.mode.encode(), node.object_id.encode(), path) for path, node in files)
        with self._indexes.empty() as index:
            git.execute("update-index", "-z", "--index-info", stdin=listed, index=index, environment=objects)
            asked = b"".join(path + b"\0" for path in paths)
            options = ("--cached", "-z", "--stdin", *_NAMES)
            output = git.execute("check-attr", *options, stdin=asked, index=index, environment=objects, timeout=SECONDS)
        return _parse(output)

    def _make_repository(self, digits: int) -> GitCommand:
        git = GitCommand(self._beside)
        if not (self._beside / "HEAD").is_file():
            kind = "sha256" if digits == 64 else "sha1"
            git.execute("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", "--initial-branch=gate")
        return git


def _attribute_files(tree: str, paths: Sequence[bytes], directories: Directories) -> list[tuple[bytes, Node]]:
    """The files of attributes in the folders above ``paths``, from the top down."""
    wanted = {b""}
    for path in paths:
        above = path.rpartition(b"/")[0]
        while above not in wanted:
            wanted.add(above)
            above = above.rpartition(b"/")[0]
    found: list[tuple[bytes, Node]] = []
    level = [(b"", tree)]
    while level:
        nodes = directories({object_id for _, object_id in level})
        deeper = []
        for folder, object_id in level:
            prefix = folder + b"/" if folder else b""
            for node in nodes[object_id]:
                path = prefix + node.name
                if node.name == _FILE and node.mode in REGULAR:
                    found.append((path, node))
                elif node.mode == DIRECTORY and path in wanted:
                    deeper.append((path, node.object_id))
        level = deeper
    return found


def _parse(output: bytes) -> dict[bytes, Attributes]:
    fields = output.split(b"\0")
    if fields.pop() or len(fields) % 3:
        raise GitError("the output of git check-attr cannot be read")
    found: dict[bytes, dict[str, str]] = {}
    for at in range(0, len(fields), 3):
        path, name, value = fields[at : at + 3]
        found.setdefault(path, {})[name.decode().replace("-", "_")] = value.decode("utf-8", "replace")
    return {path: Attributes(**values) for path, values in found.items()}
