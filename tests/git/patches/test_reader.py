"""Every line of a patch is read, or the patch is refused with the line and the cause."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gatewright.errors import PatchError
from gatewright.git.patches.files import FilePatch
from gatewright.git.patches.lines import changed_lines, shown_lines, written_lines
from gatewright.git.patches.reader import read_patch
from tests.git.repositories import MakeRepository, Repository
from tests.series import series

HEADER = b"diff --git a/src/a.py b/src/a.py\nindex 1111111..2222222 100644\n--- a/src/a.py\n+++ b/src/a.py\n"
EDIT = HEADER + b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
NEW = b"diff --git a/n b/n\nnew file mode 100644\nindex 0000000..2222222\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+1\n+2\n"
RENAMED = b"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
LITERAL = b"GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n"
BINARY = b"diff --git a/b b/b\nindex " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\n" + LITERAL
MAIL = b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] x\n\nWords.\n---\n"
STAT = b" src/a.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n"
SIGNATURE = b"-- \n2.39.5\n\n"

#: What git drops, guesses or takes for something else: the patch, the line that is named, and words of the cause.
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "more added lines than promised": (
        HEADER + b"@@ -1 +1,2 @@\n-a\n+1\n+2\n+3\n+4\n",
        5,
        "promises 1 old and 2 new lines and has 1 and 4",
    ),
    "more in a new file": (NEW + b"+3\n", 6, "promises 0 old and 2 new lines and has 0 and 3"),
    "more in the first of two files": (HEADER + b"@@ -1 +1 @@\n-a\n+b\n+c\n" + NEW, 5, "has 1 and 2"),
    "more before a rename": (HEADER + b"@@ -1 +1 @@\n-a\n+b\n-c\n" + RENAMED, 5, "has 2 and 1"),
    "more context than promised": (EDIT + b" four\n", 5, "promises 3 old and 3 new lines and has 4 and 4"),
    "fewer lines than promised": (HEADER + b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n", 5, "has 2 and 2"),
    "fewer before the next file": (HEADER + b"@@ -1,9 +1,9 @@\n one\n-two\n+2\n" + NEW, 5, "promises 9 old"),
    "a bare second hunk": (EDIT + b"@@\n-x\n+y\n", 10, "no positions and counts"),
    "a bare hunk with words": (EDIT + b"@@ def f():\n-x\n+y\n", 10, "no positions and counts"),
    "a hunk that counts below zero": (HEADER + b"@@ -1,-1 +1 @@\n+y\n", 5, "no positions and counts"),
    "context without its space": (HEADER + b"@@ -1,3 +1,3 @@\none\n-two\n+2\n three\n", 6, "does not begin with a space"),
    "apply_patch behind a diff": (EDIT + b"*** Begin Patch\n*** Update File: src/b.py\n+x\n*** End Patch\n", 10, "apply_patch"),
    "apply_patch alone": (b"*** Begin Patch\n*** Add File: n\n+x\n*** End Patch\n", 1, "apply_patch"),
    "cut behind a second header": (EDIT + b"diff --git a/src/b.py b/src/b.py\n", 10, "nothing follows"),
    "cut behind an index line": (EDIT + b"diff --git a/b b/b\nindex 1111111..2222222 100644\n", 10, "nothing follows"),
    "cut behind the names": (HEADER, 1, "no hunk follows"),
    "cut before the content of a new file": (NEW[: NEW.index(b"---")], 1, "content of n is missing"),
    "a new file of which nothing is known": (b"diff --git a/n b/n\nnew file mode 100644\n", 1, "content of n is missing"),
    "cut before the content of a rename": (RENAMED.replace(b"100%", b"90%"), 1, "content of y is missing"),
    "cut before the content of a new mode": (
        b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\nindex 1111111..2222222\n",
        1,
        "content of x is missing",
    ),
    "cut in the last line": (EDIT[:-1], 9, "no line end"),
    "cut in a header": (b"diff --git a/x b/x", 1, "no line end"),
    "text before": (b"Here is the patch:\n" + EDIT, 1, "text before the first file"),
    "text between": (EDIT + b"And the other one:\n" + NEW, 10, "text behind the last hunk"),
    "text behind": (EDIT + b"That is all.\n", 10, "text behind the last hunk"),
    "a signature of nothing": (EDIT + b"-- \n", 10, "neither the end of a mail"),
    "a file behind the signature": (EDIT + SIGNATURE + NEW, 10, "neither the end of a mail"),
    "a hunk behind the signature": (EDIT + b"-- \n2.39.5\n@@ -1 +1 @@\n-a\n+b\n", 12, "no header of a file"),
    "lines of a hunk in a signature": (EDIT + b"-- \n+x\n", 11, "text behind"),
    "a mail that lists a file more": (MAIL + STAT.replace(b"1 file changed", b"2 files changed") + EDIT, 8, "promises 2 files"),
    "a mail that lists a line more": (MAIL + STAT.replace(b"1 insertion", b"2 insertions") + EDIT + SIGNATURE, 8, "2 added"),
    "a mail that lists files and has none": (MAIL + STAT, 8, "no diff follows"),
    "a mail in quoted-printable": (
        b"From: a\nSubject: x\nContent-Transfer-Encoding: quoted-printable\n\n" + EDIT,
        3,
        "encodes its text",
    ),
    "a mail in parts": (b"From: a\nSubject: x\nContent-Type: multipart/mixed; boundary=x\n\n" + EDIT, 3, "encodes its text"),
    "a hunk in the words of a mail": (MAIL + b"@@ -1 +1 @@\n-a\n+b\n\n" + EDIT, 7, "no header of a file"),
    "apply_patch in the words of a mail": (MAIL + b"*** Update File: x\n\n" + EDIT, 7, "apply_patch"),
    "a header twice": (RENAMED + b"rename to z\n", 5, "stands there twice"),
    "two modes": (b"diff --git a/x b/x\nnew file mode 100644\nold mode 100644\nnew mode 100755\n", 4, "two modes"),
    "one of two modes": (b"diff --git a/x b/x\nnew mode 100755\n", 1, "one of the two modes"),
    "a mode that stays": (b"diff --git a/x b/x\nold mode 100644\nnew mode 100644\n", 3, "does not change"),
    "a mode that no file has": (b"diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", 3, "no file has this mode"),
    "an index line with another mode": (NEW.replace(b"2222222\n", b"2222222 100755\n"), 3, "not that of the other lines"),
    "an index line of three": (EDIT.replace(b"1111111..2222222 100644", b"1111111,3333333..2222222"), 2, "two objects"),
    "a rename of one name": (b"diff --git a/x b/y\nsimilarity index 100%\nrename from x\n", 3, "contradict each other"),
    "a rename of a new file": (RENAMED + b"new file mode 100644\n", 5, "contradict each other"),
    "a rename and a copy": (RENAMED + b"copy from x\ncopy to y\n", 4, "contradict each other"),
    "a rename with other names": (RENAMED.replace(b"b/y", b"b/z"), 1, "two names"),
    "how alike a changed file is": (EDIT.replace(b"index", b"similarity index 90%\nindex"), 2, "does not belong"),
    "wholly alike and changed": (
        RENAMED + EDIT[EDIT.index(b"---") :].replace(b"a/src/a.py", b"a/x").replace(b"b/src/a.py", b"b/y"),
        2,
        "alike to 100%",
    ),
    "names that disagree with the header": (EDIT.replace(b"+++ b/src/a.py", b"+++ b/src/b.py"), 4, "the name is b/src/b.py"),
    "an old name that disagrees": (EDIT.replace(b"--- a/src/a.py", b"--- a/src/b.py"), 3, "the name is a/src/b.py"),
    "/dev/null for a file that is there": (EDIT.replace(b"--- a/src/a.py", b"--- /dev/null"), 3, "the name is /dev/null"),
    "a new file without /dev/null": (NEW.replace(b"--- /dev/null", b"--- a/n"), 4, "the name is a/n"),
    "a new file with old lines": (NEW.replace(b"-0,0 +1,2", b"-1 +1,2").replace(b"+1\n", b"-0\n+1\n"), 6, "is new"),
    "a header between names and hunk": (EDIT.replace(b"@@ -1", b"old mode 100644\n@@ -1"), 1, "no hunk follows"),
    "an empty line in the header": (EDIT.replace(b"--- a", b"\n--- a"), 1, "nothing follows"),
    "hunks without names": (EDIT.replace(b"--- a/src/a.py\n+++ b/src/a.py\n", b""), 3, "--- and +++ are missing"),
    "a hunk without a file": (b"@@ -1 +1 @@\n-a\n+b\n", 1, "no header of a file"),
    "a header without its first line": (EDIT.partition(b"\n")[2], 1, "belongs to no `diff --git` line"),
    "the second name alone": (b"+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", 1, "no line --- stands before"),
    "a marker before any line": (HEADER + b"@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n", 6, "a backslash stands"),
    "a marker in the middle": (
        HEADER + b"@@ -1,2 +1,2 @@\n-a\n-b\n+a\n\\ No newline at end of file\n+c\n",
        10,
        "follows the end",
    ),
    "a marker twice": (HEADER + b"@@ -1 +1 @@\n-a\n+b\n" + b"\\ No newline at end of file\n" * 2, 9, "text behind"),
    "a marker that is cut off": (HEADER + b"@@ -1 +1 @@\n-a\n+b\n\\ No newline at end", 8, "no line end"),
    "a short marker": (HEADER + b"@@ -1 +1 @@\n-a\n\\ No\n+b\n", 7, "a backslash stands"),
    "a hunk behind the end of the file": (
        HEADER + b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n@@ -9 +9 @@\n-c\n+d\n",
        9,
        "follows the end",
    ),
    "a hunk that changes nothing": (HEADER + b"@@ -1 +1 @@\n a\n", 5, "changes nothing"),
    "a merge": (
        b"diff --cc src/a.py\nindex 1,2..3\n--- a/src/a.py\n+++ b/src/a.py\n@@@ -1,1 -1,1 +1,1 @@@\n",
        1,
        "combined diff",
    ),
    "a merge below a header": (HEADER + b"@@@ -1,1 -1,1 +1,1 @@@\n- a\n", 5, "combined diff"),
    "binary without its content": (BINARY.partition(b"GIT")[0] + b"Binary files a/b and b/b differ\n", 3, "not in the patch"),
    "binary that is cut off": (BINARY[: BINARY.index(b"HcmV")], 5, "cut off"),
    "binary that is cut off behind its content": (BINARY[: BINARY.index(b"\n\n") + 1], 6, "cut off"),
    "binary in odd letters": (BINARY.replace(b"HcmV?d00001", b"HcmV,d00001"), 5, "does not hold content"),
    "binary of another length": (BINARY.replace(b"HcmV?d00001", b"HcmV?d0000"), 5, "does not hold content"),
    "binary alone": (LITERAL, 1, "belongs to no `diff --git` line"),
    "a byte order mark": (b"\xef\xbb\xbf" + EDIT, 1, "byte order mark"),
    "UTF-16": (EDIT.decode().encode("utf-16"), 1, "UTF-16"),
    "UTF-16 without a mark": (EDIT.decode().encode("utf-16-le"), 1, "UTF-16"),
    "line ends of Windows": (EDIT.replace(b"\n", b"\r\n"), 1, "line ends are those of Windows"),
    "line ends of Windows in the names": (EDIT.replace(b"+++ b/src/a.py", b"+++ b/src/a.py\r"), 4, "those of Windows"),
    "line ends of Windows in a hunk's header": (EDIT.replace(b"+1,3 @@", b"+1,3 @@\r"), 5, "those of Windows"),
    "colours": (b"\x1b[1mdiff --git a/x b/x\x1b[m\n", 1, "colours"),
    "a fence": (b"```diff\n" + EDIT + b"```\n", 1, "fence of Markdown"),
    "a fence behind": (EDIT + b"```\n", 10, "fence of Markdown"),
    "HTML": (b"<pre>\n" + EDIT, 1, "HTML"),
    "a context diff": (b"*** a/x\t2020\n--- b/x\t2020\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n", 1, "context diff"),
    "a normal diff": (b"1c1\n< a\n---\n> b\n", 1, "without context"),
    "a file on one side": (EDIT + b"Only in b: x\n", 10, "on one side alone"),
    "a log of a submodule": (EDIT + b"Submodule x 1111111..2222222:\n  > words\n", 10, "submodule"),
    "properties": (EDIT + b"\nProperty changes on: x\n_____\n", 11, "properties"),
    "a plain diff of one name": (b"--- a/x\n@@ -1 +1 @@\n-a\n+b\n", 1, "no line +++"),
    "a file that is named .orig": (b"--- x.orig\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", 1, "two names"),
    "two folders compared": (b"--- old/x\n+++ new/x\n@@ -1 +1 @@\n-a\n+b\n", 1, "two names"),
    "two files compared": (
        b"diff --git a/lib/m.py b/src/m.py\n--- a/lib/m.py\n+++ b/src/m.py\n@@ -1 +1 @@\n-a\n+b\n",
        1,
        "two names",
    ),
    "prefixes of one's own": (EDIT.replace(b"a/src/", b"old/src/").replace(b"b/src/", b"new/src/"), 1, "two names"),
    "two kinds of prefixes": (EDIT + b"diff --git x x\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", 10, "other prefixes"),
    "a path above the repository": (EDIT.replace(b"/src/a.py", b"/../a.py"), 1, "no path of a file"),
    "a path from the root": (b"--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n", 1, "no path of a file"),
    "a name in broken quotes": (EDIT.replace(b"--- a/src/a.py", b'--- "a/src/a.py'), 3, "not written as git writes it"),
    "a file that another part renames": (RENAMED + EDIT.replace(b"src/a.py", b"x"), 5, "renamed and changed"),
    "a rename of a changed file": (EDIT.replace(b"src/a.py", b"x") + RENAMED, 10, "another part of the patch changes"),
    "a copy of a file that an earlier mail changes": (
        MAIL + EDIT.replace(b"src/a.py", b"x") + SIGNATURE + MAIL + RENAMED.replace(b"rename", b"copy"),
        25,
        "another part",
    ),
    "only words": (b"From: a\nSubject: x\n\nI changed it.\n", 1, "no diff of a file"),
    "only empty lines": (b"\n\n", 1, "no diff of a file"),
}


def files_of(patch: bytes) -> tuple[FilePatch, ...]:
    return read_patch(patch).files


@pytest.mark.parametrize(
    "name", series(REFUSED, "more added lines than promised", "a bare second hunk", "context without its space", "text behind")
)
def test_text_that_git_drops_or_guesses_is_refused(name: str) -> None:
    patch, line, words = REFUSED[name]
    with pytest.raises(PatchError) as refused:
        read_patch(patch)
    assert refused.value.reason == "patch_malformed"
    assert refused.value.message.startswith(f"line {line}: "), refused.value.message
    assert words in refused.value.message
    assert refused.value.message.endswith(".")


def test_refusal_quotes_no_line_of_the_patch() -> None:
    secret = b"ghp_" + b"a1B2" * 9
    for patch in (secret + b"\n" + EDIT, EDIT + secret + b"\n", HEADER + b"@@ -1 +1 @@\n-a\n+b\n+" + secret + b"\n"):
        with pytest.raises(PatchError) as refused:
            read_patch(patch)
        assert secret.decode() not in refused.value.message


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """Three commits, the last of which does all that a diff can say."""
    lines = b"".join(b"line %d\n" % number for number in range(40))
    made = make_repository(
        files={"src/a.py": lines, "gone": b"x\n", "moved": lines * 2, "mode": b"m\n", "open": b"no end", "b": b"\0" * 99}
    )
    made.commit(
        {"src/a.py": lines.replace(b"line 3\n", b"-- \n"), "second": b"-- \n2.39.5\n"}, "Second\n\nWords\n---\nmore words"
    )
    (made.path / "moved").rename(made.path / "with space")
    (made.path / "mode").chmod(0o755)
    made.commit(
        {
            "src/a.py": lines.replace(b"line 9\n", b"++ b/x\n").replace(b"line 30\n", b"").replace(b"line 3\n", b"-- \n"),
            "gone": None,
            "with space": lines * 2 + b"more\n",
            "open": b"no end either",
            "b": b"\0" * 98 + b"1",
            "empty": b"",
            't\u00e4b\t"': b"odd name\n",
            "src/crlf.txt": b"a\r\n\r\nb\r\n",
        },
        "Third",
    )
    return made


EXPECTED = {b"src/a.py": (1, 2), b"gone": (0, 1), b"with space": (1, 0), b"mode": (0, 0), b"open": (1, 1)}
EXPECTED |= {b"b": (0, 0), b"empty": (0, 0), b't\xc3\xa4b\t"': (1, 0), b"src/crlf.txt": (3, 0)}
FORMS: dict[str, Sequence[str]] = {
    "diff": ("diff", "--binary", "-M", "HEAD~1", "HEAD"),
    "diff of full ids": ("diff", "--binary", "--full-index", "-M", "HEAD~1", "HEAD"),
    "diff without prefixes": ("-c", "diff.noprefix=true", "diff", "--binary", "-M", "HEAD~1", "HEAD"),
    "diff with mnemonic prefixes": ("-c", "diff.mnemonicPrefix=true", "diff", "--binary", "-M", "HEAD~1"),
    "diff with names as they are": ("-c", "core.quotePath=false", "diff", "--binary", "-M", "HEAD~1", "HEAD"),
    "diff with a table": ("diff", "--binary", "--patch-with-stat", "-M", "HEAD~1", "HEAD"),
    "diff with functions": ("diff", "--binary", "-M", "--function-context", "HEAD~1", "HEAD"),
    "show": ("show", "--binary", "-M", "HEAD"),
    "show with a table": ("show", "--binary", "-M", "--stat", "--patch", "HEAD"),
    "log": ("log", "--patch", "--binary", "-M", "-1"),
    "log with all fields": ("log", "--patch", "--binary", "-M", "-1", "--pretty=fuller", "--decorate"),
    "mail": ("format-patch", "--binary", "--stdout", "-M", "-1"),
    "mail without a table": ("format-patch", "--binary", "--stdout", "-M", "--no-stat", "-1"),
    "mail with a signature of two lines": ("format-patch", "--binary", "--stdout", "-M", "-1", "--signature=A. Person\nHere"),
    "mail without a signature": ("format-patch", "--binary", "--stdout", "-M", "-1", "--no-signature"),
    "mail to a list": ("format-patch", "--binary", "--stdout", "-M", "-1", "--to=l@example.org"),
}


@pytest.mark.parametrize("form", series(FORMS, "diff", "diff without prefixes", "show with a table", "mail"))
def test_patch_as_git_writes_it_is_read_to_its_end(form: str, repository: Repository) -> None:
    patch = repository.git(*FORMS[form])
    assert {file.path: (file.added, file.removed) for file in files_of(patch)} == EXPECTED
    (moved,) = [file for file in files_of(patch) if file.move]
    assert (moved.move, moved.old, moved.new) == ("rename", b"moved", b"with space")


def test_renames_as_git_lands_them_are_two_files(repository: Repository) -> None:
    patch = repository.git("diff", "--binary", "--no-renames", "HEAD~1", "HEAD")
    assert {file.path: (file.old is None, file.new is None) for file in files_of(patch)}[b"moved"] == (False, True)


def test_reversed_diff_has_its_prefixes_reversed(repository: Repository) -> None:
    forward = files_of(repository.git("diff", "--binary", "HEAD~1", "HEAD"))
    back = files_of(repository.git("diff", "--binary", "-R", "HEAD", "HEAD~1"))
    assert [(file.old, file.new, file.added) for file in back] == [(file.old, file.new, file.added) for file in forward]


def test_mailbox_of_several_mails_is_read_mail_by_mail(repository: Repository) -> None:
    for options in (("-2",), ("-2", "--cover-letter")):
        patch = repository.git("format-patch", "--binary", "--stdout", "-M", *options)
        files = files_of(patch)
        assert len({file.mail for file in files}) == 2
        assert len(files) == len(EXPECTED) + 2


def test_log_of_several_commits_is_read_commit_by_commit(repository: Repository) -> None:
    files = files_of(repository.git("log", "--patch", "--binary", "-M", "-2"))
    assert len({file.mail for file in files}) == 2


PLAIN = {
    "GNU diff": (
        b"--- a/x.py\t2020-01-01 10:00:00.000000000 +0000\n+++ b/x.py\t2020-01-02 10:00:00.000000000 +0100\n",
        b"x.py",
    ),
    "GNU diff of folders": (b"diff -ru a/x.py b/x.py\n--- a/x.py\t2020-01-01\n+++ b/x.py\t2020-01-02\n", b"x.py"),
    "Subversion": (
        b"Index: src/x.py\n" + b"=" * 67 + b"\n--- src/x.py\t(revision 3)\n+++ src/x.py\t(working copy)\n",
        b"src/x.py",
    ),
    "Mercurial": (
        b"diff -r 0123456789ab src/x.py\n--- a/src/x.py\tThu Jan 01 00:00:00 1970 +0000\n+++ b/src/x.py\t\n",
        b"src/x.py",
    ),
    "Mercurial in git's form": (b"diff --git a/src/x.py b/src/x.py\n--- a/src/x.py\n+++ b/src/x.py\n", b"src/x.py"),
    "Mercurial's export": (
        b"# HG changeset patch\n# User A\n# Date 0 0\n# Node ID 01\nWords\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n",
        b"x",
    ),
    "Debian": (b"Description: words\nAuthor: A\n---\nThis header follows DEP-3.\n\n--- a/x\n+++ b/x\n", b"x"),
    "a name with a space": (b"--- a/x y.py\t\n+++ b/x y.py\t\n", b"x y.py"),
    "names without prefixes": (b"--- lib/src/m.py\n+++ lib/src/m.py\n", b"lib/src/m.py"),
}


@pytest.mark.parametrize("name", series(PLAIN, "GNU diff", "Subversion", "Mercurial", "Debian"))
def test_patch_of_another_program_is_read_to_its_end(name: str) -> None:
    header, path = PLAIN[name]
    (file,) = files_of(header + b"@@ -1 +1 @@\n-a\n+b\n")
    assert (file.old, file.new, file.added, file.removed) == (path, path, 1, 1)


PREFIXES = {
    "the default": (b"diff --git a/x b/x", 1, b"x"),
    "none": (b"diff --git lib/x lib/x", 0, b"lib/x"),
    "none, in a folder a": (b"diff --git a/x a/x", 0, b"a/x"),
    "none, in a folder b": (b"diff --git b/x b/x", 0, b"b/x"),
    "mnemonic": (b"diff --git i/lib/x w/lib/x", 1, b"lib/x"),
    "mnemonic, of a commit": (b"diff --git c/lib/x w/lib/x", 1, b"lib/x"),
    "reversed": (b"diff --git b/lib/x a/lib/x", 1, b"lib/x"),
    "with spaces": (b"diff --git a/x b/x b/x b/x", 1, b"x b/x"),
    "in quotes": (b'diff --git "a/t\\303\\244b" "b/t\\303\\244b"', 1, b"t\xc3\xa4b"),
    "one in quotes": (b'diff --git a/x "b/x"', 1, b"x"),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_are_inferred_from_the_two_names(name: str) -> None:
    line, strip, path = PREFIXES[name]
    reading = read_patch(line + b"\nold mode 100644\nnew mode 100755\n")
    assert (reading.strip, [file.path for file in reading.files]) == (strip, [path])


@pytest.mark.parametrize("style", [b"a/x b/y", b"x y", b"i/x w/y"], ids=["default", "none", "mnemonic"])
def test_prefixes_of_a_rename_are_inferred_from_its_names(style: bytes) -> None:
    (file,) = files_of(RENAMED.replace(b"a/x b/y", style))
    assert (file.old, file.new) == (b"x", b"y")


def test_new_file_without_prefixes_keeps_its_folder() -> None:
    patch = NEW.replace(b"a/n b/n", b"pkg/n pkg/n").replace(b"+++ b/n", b"+++ pkg/n")
    assert [file.new for file in files_of(patch)] == [b"pkg/n"]
    plain = b"--- src/a.py\n+++ src/a.py\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n"
    assert [file.new for file in files_of(plain)] == [b"src/a.py", b"b/new.py"]


def test_empty_context_line_without_its_blank_counts() -> None:
    (file,) = files_of(HEADER + b"@@ -1,3 +1,3 @@\n one\n\n-two\n+2\n")
    assert (file.added, file.removed) == (1, 1)


def test_lines_of_a_canonical_patch_have_their_numbers(repository: Repository) -> None:
    patch = repository.git("diff-tree", "-p", "-r", "--binary", "--full-index", "--no-renames", "HEAD~1", "HEAD")
    assert written_lines(patch)["src/a.py"] == {10}
    shown = shown_lines(patch)
    assert {-10, 10, -31} <= shown["src/a.py"]
    assert shown["gone"] == {-1}
    lines_of_text = 11 - 1 + 80 + 81  # a rename is a deletion and a new file
    assert changed_lines(patch) == lines_of_text + 4


def test_text_that_is_no_patch_has_no_lines() -> None:
    for data in (b"", b"\0", b"rubbish", EDIT + b"+more\n"):
        assert (shown_lines(data), written_lines(data), changed_lines(data)) == ({}, {}, 0)
