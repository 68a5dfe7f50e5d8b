"""A patch of several files that lost, gained or repeats one line is refused, or changes all that its other lines say."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatewright.errors import PatchError
from gatewright.git.mirror import Mirrors
from gatewright.git.objects import Objects
from tests.git.repositories import MakeRepository

LINES = b"".join(b"line %d\n" % number for number in range(30))
BEFORE = {
    "src/a.py": LINES,
    "src/gone.py": b"old\nolder\n",
    "src/moved.py": LINES + b"moved\n",
    "src/mode.sh": b"true\n",
    "src/open.txt": b"first\nno end",
    "src/raw.bin": bytes(range(64)) * 4,
}
#: Lines that an attacker or an accident may put anywhere.
INSERTED = (
    b"",
    b" ",
    b"+",
    b"-",
    b"+added",
    b"-removed",
    b" line 4",
    b"line 4",
    b"@@",
    b"@@ -1 +1 @@",
    b"@@ -1,2 +1,2 @@ words",
    b"-- ",
    b"--",
    b"---",
    b"--- a/src/b.py",
    b"+++ b/src/b.py",
    b"diff --git a/src/b.py b/src/b.py",
    b"diff --git a/src/a.py b/src/a.py",
    b"*** Begin Patch",
    b"*** Update File: src/a.py",
    b"rename from src/a.py",
    b"rename to src/b.py",
    b"copy from .env",
    b"new file mode 100644",
    b"deleted file mode 100644",
    b"old mode 100644",
    b"new mode 100755",
    b"similarity index 100%",
    b"index 1111111..2222222",
    b"index e69de29..e69de29 100644",
    b"GIT binary patch",
    b"literal 0",
    b"HcmV?d00001",
    b"\\ No newline at end of file",
    b"Binary files a/x and b/x differ",
    b"From: a",
    b"Subject: x",
    b"```",
    b"\r",
    b"\0",
    b"commit " + b"a" * 40,
    b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001",
    b"Index: src/b.py",
    b"Only in src: b",
)


class Subject:
    """The objects of a real mirror, a tree in it, and an honest patch for that tree."""

    def __init__(self, objects: Objects, tree: str, patch: bytes) -> None:
        self.objects, self.tree, self.patch = objects, tree, patch

    def lost_lines(self, patch: bytes) -> Counter[bytes] | None:
        """Changed lines of an accepted ``patch`` that are not in the diff of its outcome. None where the patch is refused."""
        try:
            made = self.objects.apply(self.tree, patch)
        except PatchError:
            return None
        return _changes(patch) - _changes(self.objects.diff(self.tree, made))


def _changes(patch: bytes) -> Counter[bytes]:
    """Lines that look like changes; however a reader understands the patch, these have to be in the outcome."""
    lines = patch.split(b"\n")
    return Counter(
        line for line in lines if line[:1] in {b"+", b"-"} and not line.startswith((b"+++ ", b"--- ", b"-- ")) and line != b"--"
    )


@pytest.fixture
async def subject(make_repository: MakeRepository, mirrors: Mirrors) -> Subject:
    repository = make_repository(files=BEFORE)
    mirror = await mirrors.open(repository.url)
    tree = await mirror.tree_of(await mirror.resolve("main"))
    (repository.path / "src/moved.py").rename(repository.path / "src/elsewhere.py")
    (repository.path / "src/mode.sh").chmod(0o755)
    changed: dict[str, bytes | None] = {
        "src/a.py": LINES.replace(b"line 3\n", b"line three\n").replace(b"line 25\n", b"-- \nline 25\n"),
        "src/elsewhere.py": LINES.replace(b"line 9\n", b"") + b"moved\n",
        "src/gone.py": None,
        "src/new.py": b"one\ntwo\n",
        "src/empty.py": b"",
        "src/open.txt": b"first\nno end either",
        "src/raw.bin": bytes(range(64)) * 4 + b"\0",
    }
    repository.commit(changed)
    return Subject(mirror._objects, tree, repository.git("diff", "--binary", "--full-index", "-M", "HEAD~1", "HEAD"))


def test_honest_patch_is_applied(subject: Subject) -> None:
    assert subject.lost_lines(subject.patch) == Counter()


@pytest.mark.parametrize("how", ["deleted", "repeated", "last", "first"])
def test_patch_with_one_line_altered_loses_nothing_silently(how: str, subject: Subject) -> None:
    lines = subject.patch.split(b"\n")[:-1]
    accepted = 0
    for at in range(len(lines)):
        kept = {
            "deleted": [*lines[:at], *lines[at + 1 :]],
            "repeated": [*lines[: at + 1], *lines[at:]],
            "last": lines[: at + 1],
            "first": lines[at:],
        }[how]
        lost = subject.lost_lines(b"".join(line + b"\n" for line in kept))
        assert not lost, (how, at, lost)
        accepted += lost is not None
    # What is accepted is whole by itself: files, hunks and headers that stand for themselves.
    assert accepted < len(lines) / 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_line_put_anywhere_is_refused_or_lands(data: st.DataObject, subject: Subject) -> None:
    lines = subject.patch.split(b"\n")[:-1]
    at = data.draw(st.integers(0, len(lines)))
    line = data.draw(
        st.sampled_from(INSERTED) | st.sampled_from(lines) | st.binary(max_size=12).filter(lambda each: b"\n" not in each)
    )
    assert not subject.lost_lines(b"".join(each + b"\n" for each in [*lines[:at], line, *lines[at:]]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_patch_cut_at_any_byte_loses_no_line_of_its_rest(data: st.DataObject, subject: Subject) -> None:
    assert not subject.lost_lines(subject.patch[: data.draw(st.integers(1, len(subject.patch)))])
