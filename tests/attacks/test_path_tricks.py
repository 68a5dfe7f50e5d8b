"""Names that are not what they seem: look-alikes, collisions, disguises, bytes, links. Each through the real diff gate."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import ChangeKind, Scope
from tests.attacks.real_gate import RealGate, codes, open_gate
from tests.git.repositories import MakeRepository

FILES = {
    "README.md": b"read me\n",
    "src/app.py": b"one\n",
    "src/pkg/mod.py": b"two\n",
    "src/Makefile": b"all:\n",
    "src2/other.py": b"other\n",
    "docs/index.md": b"docs\n",
}
OPEN: tuple[ChangeKind, ...] = ("symlink",)


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path) as opened:
        yield opened


@pytest.fixture
async def open_to_links(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow=OPEN)) as opened:
        yield opened


def tree_patch(gate: RealGate, files: Mapping[bytes, bytes], mode: str = "100644", gone: tuple[bytes, ...] = ()) -> bytes:
    """A patch made with git's plumbing: names and modes that no work tree here could hold."""
    git = gate.repository.git
    lines = b""
    for name, content in files.items():
        object_id = git("hash-object", "-w", "--stdin", stdin=content).strip()
        lines += mode.encode() + b" " + object_id + b"\t" + name + b"\0"
    lines += b"".join(b"0 " + b"0" * 40 + b"\t" + name + b"\0" for name in gone)
    git("-c", "core.protectHFS=false", "-c", "core.protectNTFS=false", "update-index", "-z", "--index-info", stdin=lines)
    return git("diff", "--cached", "--binary", "--no-renames", "HEAD")


def forged_file(path: bytes) -> bytes:
    """A patch written by hand, which no git would make: a new file at ``path``."""
    return b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n" % (path, path, path)


async def judged(gate: RealGate, patch: bytes) -> GateReport:
    return await gate.diff(await gate.worked(patch))


@pytest.mark.parametrize(
    "name",
    [
        b"src2/app.py",
        b"srcx",
        b"SRC/app.py",
        b"Src/app.py",
        b".src/app.py",
        b"src /app.py",
        b"src\xe2\x80\x8b/app.py",
        "\uff53\uff52\uff43/app.py".encode(),
        b"sr\xd1\x81/app.py",
        b"./src/../README.md",
        b"src\\app.py",
        b"xsrc/app.py",
        b"other/src/app.py",
    ],
)
async def test_a_name_that_looks_like_one_in_scope(name: bytes, gate: RealGate) -> None:
    if b".." in name:
        forged = b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n" % (
            name,
            name,
            name,
        )
        assert codes(await judged(gate, forged)) == ["patch_malformed"]
        return
    report = await judged(gate, tree_patch(gate, {name: b"x\n"}))
    assert "path_out_of_scope" in codes(report)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (b"src/APP.py", "src/app.py"),
        (b"src/makefile", "src/Makefile"),
        (b"src/PKG/new.py", "src/pkg"),
        (b"src/pkg/Mod.py", "src/pkg/mod.py"),
        (b"src/PKG", "src/pkg"),
        (b"src/App.py/deep.py", "src/app.py"),
        (b"src/app.py.", "src/app.py"),
        (b"src/app.py ", "src/app.py"),
        (b"src/ap\xe2\x80\x8dp.py", "src/app.py"),
        ("src/\uff41\uff50\uff50.py".encode(), "src/app.py"),
        (b"src/aPp.py", "src/app.py"),
    ],
)
async def test_a_new_name_that_collides_on_some_file_systems(name: bytes, other: str, gate: RealGate) -> None:
    report = await judged(gate, tree_patch(gate, {name: b"mine\n"}))
    assert [code for code in codes(report) if code != "name_unreadable"] == ["path_collision"]
    assert any(repr(other) in violation.detail for violation in report.violations)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("src/caf\u00e9.py", "src/cafe\u0301.py"),
        ("src/stra\u00dfe.py", "src/STRASSE.py"),
        ("src/\u212b.py", "src/\u00e5.py"),
        ("src/a/x.py", "src/A/y.py"),
        ("src/\ufb01le.py", "src/FILE.py"),
        ("src/\u03c3.py", "src/\u03c2.py"),
    ],
)
async def test_two_new_names_that_some_file_system_takes_for_one(one: str, two: str, gate: RealGate) -> None:
    report = await judged(gate, tree_patch(gate, {one.encode(): b"1\n", two.encode(): b"2\n"}))
    assert codes(report) == ["path_collision"]


async def test_a_rename_that_changes_only_the_case_collides_with_nothing(gate: RealGate) -> None:
    patch = tree_patch(gate, {b"src/APP.py": b"one\n"}, gone=(b"src/app.py",))
    assert codes(await judged(gate, patch)) == []


async def test_a_change_may_not_add_to_collisions_of_the_baseline(make_repository: MakeRepository, tmp_path: Path) -> None:
    files = {**FILES, "src/pkg/twin.py": b"1\n", "src/PKG/other.py": b"2\n"}
    async with open_gate(make_repository(files=files), tmp_path) as gate:
        assert codes(await judged(gate, tree_patch(gate, {b"src/pkg/twin.py": b"changed\n"}))) == []
        gate.repository.git("reset", "--quiet", "--hard")
        assert codes(await judged(gate, tree_patch(gate, {b"src/pkg/fresh.py": b"x\n"}))) == []
        gate.repository.git("reset", "--quiet", "--hard")
        assert codes(await judged(gate, tree_patch(gate, {b"src/PKG/Twin.py": b"x\n"}))) == ["path_collision"]


@pytest.mark.parametrize(
    "name",
    [
        b".git/hooks/pre-commit",
        b".GIT/config",
        b".Git/config",
        b"git~1/config",
        b".git /config",
        b".git./config",
        b".git::$INDEX_ALLOCATION/config",
        b".g\xe2\x80\x8cit/config",
        b".gi\xef\xbb\xbft/config",
        b"pkg/.git",
    ],
)
async def test_a_name_that_some_file_system_takes_for_dot_git(name: bytes, gate: RealGate) -> None:
    assert set(codes(await judged(gate, forged_file(b"src/" + name)))) & {"git_path", "patch_does_not_apply"}


@pytest.mark.parametrize(
    "name", [b".gitattributes", b".GitAttributes", b".gitattributes ", b"GITATT~1", b".git\xe2\x80\x8cattributes"]
)
async def test_attributes_in_any_spelling_that_some_file_system_reads(name: bytes, gate: RealGate) -> None:
    report = await judged(gate, tree_patch(gate, {b"src/" + name: b"* -diff\n"}))
    assert codes(report)[0] == "path_protected"
    assert report.violations[0].rule == "change_kinds.gitattributes"


@pytest.mark.parametrize("name", [b".gitmodules", b".GITMODULES", b"gitmod~1", b".gitmodules."])
async def test_modules_in_any_spelling_that_some_file_system_reads(name: bytes, gate: RealGate) -> None:
    report = await judged(gate, tree_patch(gate, {b"src/" + name: b"[submodule]\n"}))
    assert codes(report) == ["path_protected"]
    assert report.violations[0].rule == "change_kinds.gitmodules"


@pytest.mark.parametrize("name", [b"it's.py", b'quo"te.py', b"$(x).py", "naïve.py".encode(), b"-rf", b" ", b"~"])
async def test_odd_names_are_kept_exactly_and_refused_outside_the_scope(name: bytes, gate: RealGate, tmp_path: Path) -> None:
    patch = tree_patch(gate, {b"src/" + name: b"x\n"})
    assert codes(await judged(gate, patch)) == []
    tree = await gate.compose(patch)
    assert gate.run.candidate
    canonical = await gate.bus.get_artifact(gate.run.candidate.patch)
    index = tmp_path / "index"
    plain = {"GIT_INDEX_FILE": str(index), "PATH": "/usr/bin:/bin", "GIT_DIR": str(gate.repository.path / ".git")}
    for argv, stdin in (
        (["git", "read-tree", "HEAD"], b""),
        (["git", "apply", "--cached", "--whitespace=nowarn"], canonical),
    ):
        subprocess.run(argv, env=plain, input=stdin, check=True, cwd=tmp_path)
    written = subprocess.run(["git", "write-tree"], env=plain, check=True, cwd=tmp_path, capture_output=True).stdout
    assert written.decode().strip() == tree
    gate.repository.git("read-tree", "HEAD")
    report = await judged(gate, tree_patch(gate, {b"docs/" + name: b"x\n"}))
    assert codes(report) == ["path_out_of_scope"]
    assert (report.violations[0].path or "").isprintable()


@pytest.mark.parametrize(
    "target",
    [
        b"/etc/passwd",
        b"../../outside",
        b"../../../../../../etc/shadow",
        b"pkg/../../..",
        b"pkg/../app.py",
        b".git/config",
        b"../.git/config",
        b"../.GIT/hooks",
        b"../.env",
        b"../.github/workflows/ci.yml",
        b"..\\..\\outside",
        b"C:\\Windows",
        b"self",
        b"x" * 5000,
    ],
)
async def test_a_link_to_an_outside_or_forbidden_target_is_refused(target: bytes, open_to_links: RealGate) -> None:
    patch = tree_patch(open_to_links, {b"src/self": target}, mode="120000")
    assert codes(await judged(open_to_links, patch)) == ["symlink_escapes"]


@pytest.mark.parametrize(
    "target", [b"app.py", b"pkg", b"pkg/mod.py", b"../README.md", b"./pkg//mod.py", b"not/there/yet", b"."]
)
async def test_an_allowed_link_inside_the_repository_passes(target: bytes, open_to_links: RealGate) -> None:
    patch = tree_patch(open_to_links, {b"src/link": target}, mode="120000")
    assert codes(await judged(open_to_links, patch)) == []


async def test_a_link_through_a_link_that_leads_out(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    (repository.path / "docs/out").symlink_to("/etc")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "-m", "a link of old")
    async with open_gate(repository, tmp_path, scope=Scope(allow=OPEN)) as gate:
        patch = tree_patch(gate, {b"src/link": b"../docs/out/passwd"}, mode="120000")
        assert codes(await judged(gate, patch)) == ["symlink_escapes"]


async def test_two_links_in_a_circle(open_to_links: RealGate) -> None:
    patch = tree_patch(open_to_links, {b"src/a": b"b", b"src/b": b"a"}, mode="120000")
    assert codes(await judged(open_to_links, patch)) == ["symlink_escapes"]


async def test_a_link_that_replaces_a_directory_to_redirect_writes(open_to_links: RealGate) -> None:
    patch = tree_patch(open_to_links, {b"src/pkg": b"../../elsewhere"}, mode="120000", gone=(b"src/pkg/mod.py",))
    assert codes(await judged(open_to_links, patch)) == ["symlink_escapes"]


async def test_a_link_by_which_a_later_file_of_the_patch_would_leave(gate: RealGate) -> None:
    forged = (
        b"diff --git a/src/d b/src/d\nnew file mode 120000\n--- /dev/null\n+++ b/src/d\n@@ -0,0 +1 @@\n+/tmp\n"
        b"\\ No newline at end of file\n"
        b"diff --git a/src/d/x b/src/d/x\nnew file mode 100644\n--- /dev/null\n+++ b/src/d/x\n@@ -0,0 +1 @@\n+x\n"
    )
    assert set(codes(await judged(gate, forged))) & {"patch_does_not_apply", "symlink_refused"}
