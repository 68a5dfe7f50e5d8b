"""The trees that a witness computes are those of git."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatewright.contracts.queue_receipt import Blob, Change, GitObject
from gatewright.git.refs import write_tree
from gatewright.queue.composition import folders_of
from gatewright.queue.witness import MissingObjectError, Witness, WitnessError, parse_commit, parse_tree

#: Names that git sorts differently as folders, and names that need more than ASCII.
NAMES = st.sampled_from(["a", "a.b", "a0", "a-", "b", "ab", "\N{LATIN SMALL LETTER E WITH ACUTE}", "x y"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MODES = st.sampled_from(["100644", "100755", "120000", "160000"])
Files = Mapping[str, Blob]
#: The tree without entries.
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def git(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp(request.param), request.param)


class Git:
    """A real repository without commits."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder = folder
        self.digits = 40 if form == "sha1" else 64
        self.run("init", "--quiet", "--bare", f"--object-format={form}")
        self.blob = self.run("hash-object", "-w", "--stdin", given=b"content").decode().strip()

    def run(self, *words: str, given: bytes = b"") -> bytes:
        return subprocess.run(["git", *words], cwd=self._folder, input=given, capture_output=True, check=True).stdout

    def tree(self, files: Files) -> str:
        """``write-tree`` of an index with just these files."""
        lines = "".join(f"{each.mode} {each.object_id}\t{path}\0" for path, each in files.items())
        self.run("read-tree", "--empty")
        self.run("update-index", "-z", "--index-info", given=lines.encode())
        return self.run("write-tree", "--missing-ok").decode().strip()

    def objects(self, tree: str, paths: set[str]) -> Iterator[GitObject]:
        """The trees that the paths need, fetched step by step."""
        have: list[GitObject] = []
        while missing := Witness(have, self.digits).missing((), tree, paths):
            have += [GitObject(kind="tree", data=self.run("cat-file", "tree", each)) for each in missing]
        yield from have


def is_tree(files: Files) -> bool:
    return not any(folder in files for path in files for folder in folders_of(path))


@st.composite
def trees(draw: st.DrawFn, digits: int) -> dict[str, Blob]:
    ids = st.integers(1, 3).map(lambda number: f"{number:0{digits}x}")
    found = draw(st.dictionaries(PATHS, st.builds(Blob, mode=MODES, object_id=ids), max_size=8))
    return {path: each for path, each in found.items() if not any(folder in found for folder in folders_of(path))}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_tree_of_a_change_is_the_one_that_git_writes(git: Git, data: st.DataObject) -> None:
    old, new = data.draw(trees(git.digits)), data.draw(trees(git.digits))
    changes = [
        Change(path=path, old=old.get(path), new=new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    base = git.tree(old)
    witness = Witness(git.objects(base, {change.path for change in changes}), git.digits)
    assert witness.put(base, changes) == git.tree(new)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_part_of_a_change_fits_or_conflicts_as_git_has_it(git: Git, data: st.DataObject) -> None:
    old, new = data.draw(trees(git.digits)), data.draw(trees(git.digits))
    differing = [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    some = data.draw(st.lists(st.sampled_from(differing), unique=True)) if differing else []
    changes = [Change(path=path, old=old.get(path), new=new.get(path)) for path in some]
    after = {path: each for path, each in {**old, **{path: new.get(path) for path in some}}.items() if each is not None}
    base = git.tree(old)
    witness = Witness(git.objects(base, set(some)), git.digits)
    if is_tree(after):
        assert witness.put(base, changes) == git.tree(after)
    else:
        with pytest.raises(WitnessError):
            witness.put(base, changes)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_tree_is_read_and_written_as_git_does(git: Git, data: st.DataObject) -> None:
    raw = git.run("cat-file", "tree", git.tree(data.draw(trees(git.digits))))
    assert write_tree(parse_tree(raw, git.digits)) == raw


def test_a_later_change_builds_on_an_earlier_one(git: Git) -> None:
    blob, other = Blob(mode="100644", object_id="1" * git.digits), Blob(mode="100644", object_id="2" * git.digits)
    base = git.tree({"a/b/c": blob, "d": blob})
    witness = Witness(git.objects(base, {"a/b/c", "a/n"}), git.digits)
    first = witness.put(base, [Change(path="a/n", new=blob)])
    second = witness.put(first, [Change(path="a/b/c", old=blob), Change(path="a/n", old=blob, new=other)])
    assert second == git.tree({"a/n": other, "d": blob})


@pytest.mark.every_case
@pytest.mark.parametrize("path", ["", "/a", "a//b", "a/", "a/../b", ".", "a\0b", "/".join("a" * 513)])
def test_a_path_that_no_tree_has_is_refused(path: str) -> None:
    root = Witness((), 40).put(EMPTY, ())
    with pytest.raises(WitnessError):
        Witness([GitObject(kind="tree", data=b"")], 40).put(
            root, [Change(path=path, new=Blob(mode="100644", object_id="1" * 40))]
        )


@pytest.mark.every_case
@pytest.mark.parametrize("blob", [Blob(mode="40000", object_id="1" * 40), Blob(mode="100644", object_id="1" * 64)])
def test_a_blob_that_is_no_file_of_the_repository_is_refused(blob: Blob) -> None:
    with pytest.raises(WitnessError):
        Witness([GitObject(kind="tree", data=b"")], 40).put(EMPTY, [Change(path="a", new=blob)])


def test_a_path_that_is_changed_twice_is_refused() -> None:
    change = Change(path="a", new=Blob(mode="100644", object_id="1" * 40))
    with pytest.raises(WitnessError):
        Witness([GitObject(kind="tree", data=b"")], 40).put(EMPTY, [change, change])


def test_an_altered_object_is_another_object() -> None:
    with pytest.raises(MissingObjectError) as caught:
        Witness([GitObject(kind="tree", data=b"x")], 40).put(
            EMPTY, [Change(path="a", new=Blob(mode="100644", object_id="1" * 40))]
        )
    assert caught.value.object_id == EMPTY


@pytest.mark.every_case
@pytest.mark.parametrize(
    "raw",
    [b"x", b"100644 a", b"100644 a\0short", b"100644 \0" + bytes(20), b"9 a\0" + bytes(20), 2 * (b"100644 a\0" + bytes(20))],
)
def test_bytes_that_are_no_tree_are_refused(raw: bytes) -> None:
    with pytest.raises(WitnessError):
        parse_tree(raw, 40)


@pytest.mark.every_case
@pytest.mark.parametrize("raw", [b"", b"parent 1\ntree 2\n\n", b"tree 1\nauthor x\nparent 2\n\nwords"])
def test_bytes_that_are_no_commit_are_refused(raw: bytes) -> None:
    with pytest.raises(WitnessError):
        parse_commit(raw)


def test_a_commit_has_its_parents_and_its_message() -> None:
    found = parse_commit(b"tree 1\nparent 2\nparent 3\nauthor x\ngpgsig y\n parent 4\n\nwords\n\nparent 5\n")
    assert found == ("1", ("2", "3"), b"words\n\nparent 5\n")
