"""The tree that git makes of a patch, held against the patch as it was read."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.errors import PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirrors
from gatewright.git.patches import headers
from gatewright.git.patches.binary import apply_delta
from gatewright.git.patches.outcome import Outcome, has_lines
from gatewright.git.patches.placing import apply_in_place
from gatewright.git.patches.reader import read_patch
from gatewright.git.refs import object_id
from tests.git.repositories import MakeRepository

EDIT = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
OLD, NEW = b"one\ntwo\nthree\n", b"one\n2\nthree\n"
RAW = random.Random(1).randbytes(20_000)  # noqa: S311 - the same on every run


def change(path: bytes, old: bytes | None, new: bytes | None, mode: str = "100644") -> TreeChange:
    old_id, new_id = (object_id("blob", content, 40) if content is not None else "0" * 40 for content in (old, new))
    old_mode, new_mode = ("000000" if content is None else mode for content in (old, new))
    return TreeChange(path, old_mode, new_mode, old_id, new_id, "M")


def refusal(patch: bytes, *changes: TreeChange, old: bytes = OLD) -> str:
    """Why the outcome ``changes`` of ``patch`` is refused."""
    with pytest.raises(PatchError) as refused:
        verify(patch, *changes, old=old)
    assert refused.value.reason == "patch_outcome_differs"
    return refused.value.message


def verify(patch: bytes, *changes: TreeChange, old: bytes = OLD) -> None:
    outcome = Outcome(patch, read_patch(patch), {each.path: each for each in changes}, {}, frozenset())
    assert all(outcome.is_expected(check, old) for check in outcome.checks())


def test_outcome_that_is_the_patch_passes() -> None:
    verify(EDIT, change(b"x", OLD, NEW))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((change(b"x", OLD, NEW), change(b"y", OLD, NEW)), "y: git changed it, and the patch does not name it"),
        ((), "the patch changes it, and git did not"),
        ((change(b"x", OLD, OLD + b"4\n"),), "git put lines elsewhere"),
        ((change(b"x", OLD, b"one\nthree\n2\n"),), "git put lines elsewhere"),
        ((change(b"x", OLD, None),), "the patch keeps it, and it is gone"),
    ],
    ids=["another file", "no file", "other lines", "another order", "a deletion"],
)
def test_outcome_that_is_not_the_patch_is_refused(changes: tuple[TreeChange, ...], words: str) -> None:
    assert words in refusal(EDIT, *changes)


def test_mode_and_deletion_that_git_did_not_make_are_refused() -> None:
    mode = b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    assert "it has the mode 100644" in refusal(mode, change(b"x", OLD, NEW))
    gone = b"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"
    assert "the patch deletes it, and it is there" in refusal(gone, change(b"x", OLD, NEW))
    new = b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n"
    assert "its lines are not those of the patch" in refusal(new, change(b"x", None, b"one\ntwo\n"))


LINES = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=8)


@given(old=LINES, new=LINES, ends=st.booleans())
def test_lines_are_compared_as_often_as_they_stand(old: list[str], new: list[str], ends: bool) -> None:
    """Against a comparison of all lines, however the two contents begin and end alike."""
    before, after = ("".join(f"{line}\n" for line in lines).encode() for lines in (old, new))
    after = after if ends else after[:-1]
    assert has_lines(before, after, b"", ()) == (Counter(old) == Counter(new) and (ends or not new))


def test_hunks_are_applied_exactly_at_their_lines() -> None:
    (file,) = read_patch(EDIT).files
    assert apply_in_place(OLD, EDIT, file) == NEW
    assert apply_in_place(b"zero\n" + OLD, EDIT, file) is None
    assert apply_in_place(OLD[:-1], EDIT, file) is None


def test_delta_that_does_not_fit_makes_nothing() -> None:
    assert apply_delta(b"abcdef", b"\x06\x05\x91\x01\x03\x02XY", 100) == b"bcdXY"
    for delta in (b"", b"\x06", b"\x05\x05\x91\x01\x03\x02XY", b"\x06\x04\x91\x01\x03\x02XY", b"\x06\x05\x91\x05\x03\x02XY"):
        assert apply_delta(b"abcdef", delta, 100) is None
    assert apply_delta(b"abcdef", b"\x06\x05\x00\x02XY", 100) is None
    assert apply_delta(b"abcdef", b"\x06\x05\x91\x01\x03\x02XY", 4) is None


@pytest.mark.parametrize("sha256", [False, True], ids=["sha1", "sha256"])
async def test_patch_of_all_kinds_is_applied_twice_in_either_object_format(
    make_repository: MakeRepository, mirrors: Mirrors, *, sha256: bool
) -> None:
    """The second time its binary contents are in the store already, whole and as a delta."""
    repository = make_repository(files={"x": OLD, "gone": b"x\n", "raw": RAW, "moved": OLD * 9}, sha256=sha256)
    mirror = await mirrors.open(repository.url)
    base = await mirror.resolve("main")
    (repository.path / "moved").rename(repository.path / "elsewhere")
    last = repository.commit(
        {"x": NEW, "gone": None, "raw": RAW[:9000] + b"more" + RAW[9000:], "new.bin": RAW[::-1], "new": b"no end", "empty": b""}
    )
    tree = repository.git("rev-parse", f"{last}^{{tree}}").decode().strip()
    for options in (("--no-renames",), ("-M", "-C")):
        patch = repository.git("diff", "--binary", "--full-index", *options, base, last)
        assert b"\ndelta " in patch
        assert await mirror.apply(base, patch) == tree
        assert await mirror.apply(base, patch) == tree


async def test_headers_are_read_the_same_line_by_line(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(files={"x": OLD, "gone": b"x\n", "a b": OLD, "same/x": OLD})
    repository.commit({"x": NEW, "gone": None, "a b": NEW, "same/x": NEW, "new": b"1\n", "deep/er/new.py": b"1\n"})
    for options in (("--full-index",), ("--abbrev=9",), ("--no-prefix",)):
        patch = repository.git("diff", *options, "HEAD~1", "HEAD")
        fast = read_patch(patch)
        with monkeypatch.context() as slowly:
            slowly.setattr(headers, "read_canonical_file", lambda *_: None)
            assert read_patch(patch) == fast
