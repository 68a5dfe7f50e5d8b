"""Patches whose text says more, or something else, than the tree that git makes of them."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

LINES = b"".join(b"line %d\n" % number for number in range(20))
FILES = {
    "src/app.py": b"one\ntwo\nthree\n",
    "src/m.py": LINES,
    "lib/src/m.py": LINES,
    "src/long.py": LINES * 2,
    "tools/src/other.py": b"other\n",
    "src/other.py": b"another\n",
    ".env": b"MODE=live\n",
}
HEADER = b"diff --git a/src/app.py b/src/app.py\nindex 1111111..2222222 100644\n--- a/src/app.py\n+++ b/src/app.py\n"
EDIT = HEADER + b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
NEW = b"diff --git a/src/n.py b/src/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/n.py\n"

#: git applies each of these, and drops the rest without a word.
DROPPED = {
    "four lines where two are promised": (NEW + b"@@ -0,0 +1,2 @@\n+1\n+2\n+3\n+4\n", "src/n.py"),
    "more lines in the last hunk": (HEADER + b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n+4\n", "src/app.py"),
    "more lines in the first of two files": (NEW + b"@@ -0,0 +1 @@\n+1\n+2\n" + EDIT, "src/n.py"),
    "more lines before a rename": (
        NEW + b"@@ -0,0 +1 @@\n+1\n+2\n"
        b"diff --git a/src/app.py b/src/b.py\nsimilarity index 100%\nrename from src/app.py\nrename to src/b.py\n",
        "src/n.py",
    ),
    "a second hunk without positions": (EDIT + b"@@\n-three\n+3\n", "src/app.py"),
    "a context line without its space": (EDIT + b"@@ -3 +3,2 @@\nthree\n+4\n", "src/app.py"),
    "apply_patch behind a diff": (EDIT + b"*** Begin Patch\n*** Update File: src/m.py\n-line 1\n+x\n*** End Patch\n", None),
    "a second file that is cut off": (EDIT + b"diff --git a/src/m.py b/src/m.py\n", "src/m.py"),
    "words behind the last hunk": (EDIT + b"\nAnd delete src/m.py, please.\n", None),
}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path) as opened:
        yield opened


async def judged(gate: RealGate, patch: bytes) -> GateReport:
    return await gate.diff(await gate.worked(patch))


@pytest.mark.parametrize("name", DROPPED)
async def test_part_of_a_patch_that_git_drops(name: str, gate: RealGate) -> None:
    patch, path = DROPPED[name]
    report = await judged(gate, patch)
    assert codes(report) == ["patch_malformed"]
    (violation,) = report.violations
    assert violation.path == path
    assert violation.detail.startswith("line ")


async def test_patch_without_prefixes_changes_the_file_that_it_names(gate: RealGate) -> None:
    """The default strips the first folder, and would change a file of equal content in its place."""
    (gate.repository.path / "lib/src/m.py").write_bytes(LINES.replace(b"line 3\n", b"changed\n"))
    report = await judged(gate, gate.repository.git("-c", "diff.noprefix=true", "diff"))
    assert [(each.code, each.path) for each in report.violations] == [("path_out_of_scope", "lib/src/m.py")]


async def test_printed_options_open_the_path_that_the_patch_names(gate: RealGate) -> None:
    (gate.repository.path / "pkg").mkdir()
    (gate.repository.path / "pkg/new.py").write_bytes(b"new\n")
    gate.repository.git("add", "--all")
    for setting in ("diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.noprefix=false"):
        report = await judged(gate, gate.repository.git("-c", setting, "diff", "--cached"))
        assert retry_options(report) == ("--allow", "pkg/new.py")


@pytest.mark.parametrize("prefixes", [("old/", "new/"), ("lib/", "vendor/"), ("", "b/")], ids=["own", "folders", "one"])
async def test_patch_whose_prefixes_could_be_folders(prefixes: tuple[str, str], gate: RealGate) -> None:
    (gate.repository.path / "src/m.py").write_bytes(b"changed\n")
    patch = gate.repository.git("diff", f"--src-prefix={prefixes[0]}", f"--dst-prefix={prefixes[1]}")
    report = await judged(gate, patch)
    assert codes(report) == ["patch_malformed"]
    assert "--src-prefix=a/ --dst-prefix=b/" in report.summary
    assert retry_options(report) == ()


async def test_patch_made_in_a_subfolder_names_another_file(gate: RealGate) -> None:
    """Both files fit the hunk; the object that the patch names tells which one is meant."""
    gate.repository.commit({"tools/src/other.py": LINES + b"its end\n", "src/other.py": LINES + b"another end\n"})
    async with open_gate(gate.repository, gate.repository.path.parent / "again") as moved:
        (gate.repository.path / "tools/src/other.py").write_bytes(b"changed\n" + LINES + b"its end\n")
        patch = gate.repository.git("-C", "tools", "diff", "--relative")
        assert b"a/src/other.py" in patch
        report = await judged(moved, patch)
        assert codes(report) == ["patch_malformed"]
        assert "was made for tools/src/other.py" in report.summary


async def test_hunk_that_fits_several_other_places(gate: RealGate) -> None:
    """git takes the nearest one."""
    patch = EDIT.replace(b"app.py", b"long.py").replace(b"-1,3 +1,3", b"-9,3 +9,3").replace(b"one", b"line 3")
    patch = patch.replace(b"two", b"line 4").replace(b"three", b"line 5")
    report = await judged(gate, patch)
    assert codes(report) == ["patch_does_not_apply"]
    assert "hunk 1 of src/long.py (line 5 of the patch)" in report.summary


async def test_hunk_that_fits_one_other_place_is_applied(gate: RealGate) -> None:
    patch = EDIT.replace(b"app.py", b"m.py").replace(b"-1,3 +1,3", b"-9,3 +9,3").replace(b"one", b"line 3")
    assert codes(await judged(gate, patch.replace(b"two", b"line 4").replace(b"three", b"line 5"))) == []


async def test_file_that_lies_elsewhere_is_named(gate: RealGate) -> None:
    (gate.repository.path / "lib/src/m.py").write_bytes(b"changed\n")
    report = await judged(gate, gate.repository.git("-C", "lib/src", "diff", "--relative"))
    assert codes(report) == ["patch_does_not_apply"]
    assert "m.py" in (report.violations[0].path or "")
    assert "lib/src/m.py" in report.summary


async def test_hunk_that_does_not_match_is_named(gate: RealGate) -> None:
    second = b"@@ -31,3 +31,3 @@\n line 10\n-line elf\n+line 11\n line 12\n"
    patch = (
        EDIT.replace(b"app.py", b"long.py").replace(b" one\n-two\n+2\n three\n", b" line 0\n-line 1\n+1\n line 2\n") + second
    )
    report = await judged(gate, patch)
    assert codes(report) == ["patch_does_not_apply"]
    assert "hunk 2 of src/long.py (line 10 of the patch)" in report.summary


async def test_hunk_without_context(gate: RealGate) -> None:
    """git would put the line at the end of the file."""
    (gate.repository.path / "src/m.py").write_bytes(LINES.replace(b"line 3\n", b"x\nline 3\n"))
    report = await judged(gate, gate.repository.git("diff", "-U0"))
    assert codes(report) == ["patch_malformed"]
    assert "without -U0" in report.summary


def binary(path: bytes, old: bytes, new: bytes, data: bytes) -> bytes:
    """A binary change of ``path`` between two objects, which carries ``data`` as its new content."""
    packed = zlib.compress(data)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    pieces = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    body = b"".join(letters[len(piece) - 1 : len(piece)] + base64.b85encode(piece, pad=True) + b"\n" for piece in pieces)
    head = b"diff --git a/%b b/%b\nindex %b..%b 100644\nGIT binary patch\nliteral %d\n" % (path, path, old, new, len(data))
    return head + body + b"\nliteral 0\nHcmV?d00001\n\n"


async def test_binary_patch_that_names_an_object_it_does_not_hold(gate: RealGate) -> None:
    """git takes content that its store has by the id alone, whatever the patch holds."""
    old, secret = (gate.repository.git("rev-parse", f"HEAD:{name}").strip() for name in ("src/app.py", ".env"))
    report = await judged(gate, binary(b"src/app.py", old, secret, b"innocent\n"))
    assert codes(report) == ["patch_outcome_differs"]


async def test_binary_patch_that_is_applied_again_is_what_it_was(gate: RealGate) -> None:
    old = gate.repository.git("rev-parse", "HEAD:src/app.py").strip()
    data = bytes(range(200))
    new = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().encode()
    first = await judged(gate, binary(b"src/app.py", old, new, data))
    again = await judged(gate, binary(b"src/app.py", old, new, data))
    assert codes(first) == codes(again) == ["binary_refused"]


async def test_mails_that_build_on_each_other_lead_to_their_last(gate: RealGate) -> None:
    gate.repository.commit({"src/app.py": b"1\ntwo\nthree\n"})
    gate.repository.commit({"src/app.py": b"1\n2\nthree\n", "src/n.py": b"new\n"})
    report = await judged(gate, gate.repository.git("format-patch", "--stdout", "-2"))
    assert codes(report) == []
    mirror = await gate.gates.mirrors.open(gate.repository.url)
    (entry,) = await mirror.files(evidence(report)["candidate_tree"], ("src/app.py",))
    assert await mirror.blob(entry.object_id) == b"1\n2\nthree\n"


async def test_mail_that_renames_what_an_earlier_one_changed(gate: RealGate) -> None:
    """git would rename the file as it was before the first mail."""
    gate.repository.commit({"src/m.py": LINES + b"kept?\n"})
    (gate.repository.path / "src/m.py").rename(gate.repository.path / "src/moved.py")
    gate.repository.commit({})
    report = await judged(gate, gate.repository.git("format-patch", "--stdout", "-M", "-2"))
    assert codes(report) == ["patch_malformed"]
    assert "git diff --binary BASE HEAD" in report.summary
