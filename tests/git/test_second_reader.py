"""What the mirror writes, read by another library: GitPython has git give it bytes, and takes trees and commits apart itself.

A tree that our own parsers alone have read could be wrong in the same way twice.
"""

from __future__ import annotations

from datetime import UTC, datetime

from git import Repo
from git.objects import Blob, Tree

from gatewright.contracts.vocabulary import Person
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror, Mirrors
from tests.git.repositories import Known, MakeRepository

PATCH = b"""--- a/src/app.py
+++ b/src/app.py
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+true
diff --git a/README.md b/README.md
deleted file mode 100644
--- a/README.md
+++ /dev/null
@@ -1 +0,0 @@
-read me
"""


def read(repository: Repo, tree: str) -> dict[str, tuple[str, bytes]]:
    """Path, mode and content of all files of a tree."""
    found: dict[str, tuple[str, bytes]] = {}
    folders = [Tree(repository, bytes.fromhex(tree), mode=0o040000, path="")]
    while folders:
        for item in folders.pop():
            if isinstance(item, Tree):
                folders.append(item)
            else:
                assert isinstance(item, Blob)
                found[str(item.path)] = (f"{item.mode:06o}", item.data_stream.read())
    return found


async def seen_by_us(mirror: Mirror, tree: str) -> dict[str, tuple[str, bytes]]:
    entries = await mirror.files(tree)
    contents = await mirror.blobs(entry.object_id for entry in entries)
    return {entry.path.decode(): (entry.mode, contents[entry.object_id]) for entry in entries}


async def test_the_tree_of_a_patch_is_the_same_to_another_reader(known: Known) -> None:
    tree = await known.mirror.apply(known.commit, PATCH)
    with Repo(known.mirror.path) as repository:
        expected = {"src/app.py": ("100644", b"one\nzwei\nthree\n"), "run.sh": ("100755", b"true\n")}
        assert read(repository, tree) == await seen_by_us(known.mirror, tree) == expected


async def test_odd_names_modes_and_contents_are_the_same_to_another_reader(
    make_repository: MakeRepository, mirrors: Mirrors
) -> None:
    repository = make_repository(files={"a/b/c": b"deep\n", "a.b": b"beside\n", "a-b": b"sorts between\n"})
    mirror = await mirrors.open(repository.url)
    baseline = await mirror.resolve("main")
    changes = [
        FileChange("Übung/mit Leerzeichen.txt".encode(), "100644", b"\x00\xff binary"),
        FileChange(b"link", "120000", b"a/b/c"),
        FileChange(b"tool", "100755", b"#!/bin/sh\n"),
        FileChange(b"a/b/c", None),
    ]
    tree = await mirror.write_tree(baseline, changes)
    with Repo(mirror.path) as other:
        seen = read(other, tree)
        assert seen == await seen_by_us(mirror, tree)
        assert seen["link"] == ("120000", b"a/b/c")
        assert seen["Übung/mit Leerzeichen.txt"] == ("100644", b"\x00\xff binary")
        assert "a/b/c" not in seen


async def test_another_reader_reads_the_same_commit(known: Known) -> None:
    mirror, when = known.mirror, datetime(2026, 11, 25, 12, 30, 15, tzinfo=UTC)
    tree = await mirror.apply(known.commit, PATCH)
    author = Person(name="Änne Ö'Neil", email="aenne@example.org")
    commit = await mirror.commit_tree(tree, parent=known.commit, message="Zwei\n\nKörper\n", when=when, author=author)
    with Repo(mirror.path) as repository:
        said = repository.commit(commit)
        assert (said.tree.hexsha, [parent.hexsha for parent in said.parents]) == (tree, [known.commit])
        assert (said.author.name, said.author.email, said.message) == (author.name, author.email, "Zwei\n\nKörper\n")
        assert said.authored_datetime == said.committed_datetime == when
