"""What git itself can be made to do: by a hostile worker's patch, or by the configuration and objects of a hostile repository.

Every test drives the real gate on a real repository; a trap is a program whose run leaves a mark.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.errors import GatewrightError, GitError, MalformedError
from gatewright.git.mirror import Mirrors
from tests.attacks.real_gate import RealGate, codes, open_gate
from tests.git.conftest import make_trap
from tests.git.repositories import MakeRepository, MakeTrap, Repository, Trap

__all__ = ["make_trap"]

FILES = {
    "README.md": b"read me\n",
    "src/app.py": b"one\n",
    "src/other.py": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n",
    ".gitignore": b"*.log\nsrc/ignored/\n",
}


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


@pytest.fixture
async def gate(repository: Repository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(repository, tmp_path) as opened:
        yield opened


async def judged(gate: RealGate, patch: bytes) -> GateReport:
    return await gate.diff(await gate.worked(patch))


def paths(report: GateReport) -> list[str | None]:
    return [violation.path for violation in report.violations]


# --- edits that git's own status does not show ------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
async def test_an_edit_hidden_by_an_index_flag(flag: str, gate: RealGate) -> None:
    """Such an edit vanishes from status and diff; the worker's files are looked at, never its index."""
    gate.repository.git("update-index", flag, "README.md")
    (gate.repository.path / "README.md").write_text("mine\n")
    assert gate.repository.git("status", "--porcelain") == b""
    gate.repository.git("update-index", flag.replace("--", "--no-"), "README.md")
    assert paths(await judged(gate, gate.patch({}))) == ["README.md"]


async def test_a_new_file_hidden_by_gitignore(gate: RealGate) -> None:
    patch = gate.patch({"hidden.log": b"mine\n", "src/ignored/x.py": b"mine\n"})
    assert paths(await judged(gate, patch)) == ["hidden.log"]


async def test_a_new_file_hidden_by_info_exclude(gate: RealGate) -> None:
    (gate.repository.path / ".git/info").mkdir(exist_ok=True)
    (gate.repository.path / ".git/info/exclude").write_text("*\n")
    assert paths(await judged(gate, gate.patch({"hidden.txt": b"mine\n"}))) == ["hidden.txt"]


async def test_a_change_hidden_by_a_diff_attribute(gate: RealGate) -> None:
    """``-diff`` turns a change into "Binary files differ"; the canonical patch is made without anybody's attributes."""
    patch = gate.patch({"src/app.py": b"two\n"})
    assert codes(await judged(gate, patch)) == []
    attributes = gate.patch({"src/.gitattributes": b"*.py -diff\n", "src/app.py": b"three\n"})
    assert codes(await judged(gate, attributes)) == ["path_protected"]


async def test_the_canonical_patch_shows_text_that_attributes_of_old_call_binary(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files={**FILES, ".gitattributes": b"*.py binary -diff\n"})
    async with open_gate(repository, tmp_path) as gate:
        await gate.compose(gate.patch({"src/app.py": b"two\n"}))
        assert gate.run.candidate
        canonical = await gate.bus.get_artifact(gate.run.candidate.patch)
    assert b"-one\n+two\n" in canonical


# --- nested repositories and submodules ---------------------------------------------------------------------------------


async def test_a_nested_repository_becomes_a_gitlink(gate: RealGate) -> None:
    nested = gate.repository.path / "src/nested"
    nested.mkdir()
    gate.repository.git("-C", str(nested), "init", "--quiet")
    gate.repository.git("-C", str(nested), "commit", "--quiet", "--allow-empty", "-m", "x")
    gate.repository.git("add", "--all", "--force")
    patch = gate.repository.git("diff", "--cached", "--binary", "HEAD")
    assert codes(await judged(gate, patch)) == ["submodule_refused"]


async def test_an_embedded_bare_repository_with_a_program_in_its_configuration(gate: RealGate, make_trap: MakeTrap) -> None:
    """Harmless bytes to the gate, which never enters a directory; that a bundled repository cannot act is what is shown."""
    trap = make_trap()
    config = f"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = {trap.program}\n".encode()
    files = {"src/b/HEAD": b"ref: refs/heads/main\n", "src/b/config": config, "src/b/objects/x": b"", "src/b/refs/x": b""}
    report = await judged(gate, gate.patch(files))
    assert codes(report) == []
    assert not trap.sprung


async def test_a_submodule_whose_address_is_an_option_or_a_command(gate: RealGate, make_trap: MakeTrap) -> None:
    """CVE-2018-17456 and its kin: nothing of a submodule is ever fetched, and its file is refused by name."""
    trap = make_trap()
    for url in (f"--upload-pack={trap.program}", f"ext::{trap.program}", "-u./payload"):
        modules = f'[submodule "x"]\n\tpath = src/x\n\turl = {url}\n'.encode()
        report = await judged(gate, gate.patch({"src/.gitmodules": modules}))
        assert codes(report) == ["path_protected"]
        gate.repository.git("reset", "--quiet", "--hard")
    assert not trap.sprung


# --- programs that the repository's own configuration names -------------------------------------------------------------


def filters(repository: Repository, trap: Trap) -> None:
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/attributes").write_text("* filter=evil diff=evil merge=evil\n")
    repository.configure(
        **{
            "filter.evil.clean": trap.program,
            "filter.evil.smudge": trap.program,
            "filter.evil.process": trap.program,
            "diff.evil.textconv": trap.program,
            "diff.evil.command": trap.program,
            "merge.evil.driver": trap.program,
        }
    )


def hooks(repository: Repository, trap: Trap) -> None:
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-receive", "update"):
        hook = repository.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(trap.program.read_text())
        hook.chmod(0o755)


def monitors(repository: Repository, trap: Trap) -> None:
    repository.configure(
        core__fsmonitor=trap.program,
        core__sshCommand=trap.program,
        core__editor=trap.program,
        core__pager=trap.program,
        core__askPass=trap.program,
        core__alternateRefsCommand=trap.program,
        uploadpack__packObjectsHook=trap.program,
        diff__external=trap.program,
        credential__helper=trap.program,
        gpg__program=trap.program,
    )


def included(repository: Repository, trap: Trap) -> None:
    other = repository.path.parent / "included"
    other.write_text(f"[core]\n\tfsmonitor = {trap.program}\n")
    repository.configure(include__path=other)


@pytest.mark.parametrize("make", [filters, hooks, monitors, included])
async def test_a_program_in_the_configuration_of_the_repository(
    make: Callable[[Repository, Trap], None], repository: Repository, make_trap: MakeTrap, tmp_path: Path
) -> None:
    patch = _patch_of(repository, {"src/app.py": b"two\n"})
    trap = make_trap()
    make(repository, trap)
    async with open_gate(repository, tmp_path) as gate:
        assert codes(await judged(gate, patch)) == []
        await gate.compose(patch)
    assert not trap.sprung


def _patch_of(repository: Repository, files: dict[str, bytes]) -> bytes:
    for name, content in files.items():
        (repository.path / name).write_bytes(content)
    return repository.git("diff", "--binary", "HEAD")


async def test_another_work_tree_or_a_sparse_checkout_in_the_configuration(repository: Repository, tmp_path: Path) -> None:
    repository.configure(core__worktree="/etc", core__sparseCheckout="true", extensions__worktreeConfig="true")
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/sparse-checkout").write_text("/nothing/\n")
    async with open_gate(repository, tmp_path) as gate:
        forged = b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+mine\n"
        assert paths(await judged(gate, forged)) == ["README.md"]


# --- objects that are not what they seem -------------------------------------------------------------------------------


async def test_a_replace_ref_that_shows_the_gate_another_baseline(repository: Repository, tmp_path: Path) -> None:
    """With it, plain git would say that README.md has always been the attacker's."""
    honest = repository.head()
    repository.commit({"README.md": b"the attacker's\n"})
    fake = repository.head()
    repository.git("reset", "--quiet", "--hard", honest)
    repository.git("replace", honest, fake)
    assert repository.git("show", f"{honest}:README.md") == b"the attacker's\n"
    async with open_gate(repository, tmp_path) as gate:
        against_fake = b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-the attacker's\n+x\n"
        assert codes(await judged(gate, against_fake)) == ["patch_does_not_apply"]
        mirror = await gate.gates.mirrors.open(repository.url)
        (entry,) = await mirror.files(gate.run.accepted.baseline_tree, ("README.md",))
        assert await mirror.blob(entry.object_id) == b"read me\n"


async def test_grafts_and_alternates_of_the_repository_do_not_follow_into_the_mirror(
    repository: Repository, tmp_path: Path
) -> None:
    stranger = repository.git("commit-tree", "HEAD^{tree}", "-m", "a stranger's").decode().strip()
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/grafts").write_text(f"{repository.head()} {stranger}\n")
    async with open_gate(repository, tmp_path) as gate:
        mirror = await gate.gates.mirrors.open(repository.url)
        assert not (mirror.path / "info/grafts").exists()
        assert await mirror.parents(gate.run.accepted.baseline_commit) == ()
        assert not (mirror.path / "objects/info/alternates").exists()
        assert codes(await judged(gate, gate.patch({"src/app.py": b"two\n"}))) == []


async def test_a_corrupt_object_is_not_let_in(repository: Repository, tmp_path: Path) -> None:
    blob = repository.git("rev-parse", "HEAD:README.md").decode().strip()
    loose = repository.path / ".git/objects" / blob[:2] / blob[2:]
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(b"blob 7\0forged\n"))
    with pytest.raises(GitError):
        async with open_gate(repository, tmp_path) as gate:
            await gate.gates.mirrors.open(repository.url)


@pytest.mark.parametrize(
    "ref",
    [
        "--output=/tmp/owned",
        "-x",
        "HEAD~1",
        "HEAD^",
        "HEAD@{1}",
        "main..other",
        ":README.md",
        "HEAD:README.md",
        "@{-1}",
        "refs/heads/../../etc",
        "main\nmain",
        "main ",
        "^main",
        "*",
    ],
)
async def test_a_baseline_that_is_an_option_or_an_expression(ref: str, repository: Repository, tmp_path: Path) -> None:
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    with pytest.raises(MalformedError) as caught:
        await mirror.resolve(ref)
    assert caught.value.reason == "bad_ref"


@pytest.mark.parametrize("ref", ["nowhere", "refs/heads/nowhere", "7" * 40])
async def test_a_baseline_that_does_not_exist(ref: str, repository: Repository, tmp_path: Path) -> None:
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    with pytest.raises(GatewrightError) as caught:
        await mirror.resolve(ref)
    assert caught.value.reason == "ref_not_found"


async def test_a_baseline_that_is_a_blob_or_a_tree(repository: Repository, tmp_path: Path) -> None:
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    for name in ("HEAD:README.md", "HEAD^{tree}"):
        object_id = repository.git("rev-parse", name).decode().strip()
        with pytest.raises(GatewrightError):
            await mirror.resolve(object_id)


# --- patches that no git would write -------------------------------------------------------------------------------------


async def test_headers_that_name_one_file_and_hunks_of_another(gate: RealGate) -> None:
    forged = (
        b"diff --git a/src/app.py b/src/app.py\nindex 1..2 100644\n--- a/README.md\n+++ b/README.md\n"
        b"@@ -1 +1 @@\n-read me\n+mine\n"
    )
    assert codes(await judged(gate, forged)) == ["patch_malformed"]


async def test_a_second_file_after_an_honest_first_one(gate: RealGate) -> None:
    forged = (
        b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-one\n+two\n"
        b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+mine\n"
    )
    assert paths(await judged(gate, forged)) == ["README.md"]


async def test_a_file_hidden_behind_the_words_of_an_e_mail(gate: RealGate) -> None:
    forged = (
        b"From 0000 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] tidy\n\nnothing to see\n---\n"
        b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+mine\n-- \n2.39.5\n"
    )
    assert paths(await judged(gate, forged)) == ["README.md"]


async def test_a_hunk_that_counts_less_than_it_holds(gate: RealGate) -> None:
    forged = b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-one\n+two\n+three\n"
    assert codes(await judged(gate, forged)) == ["patch_malformed"]


@pytest.mark.parametrize("count", [b"99999999999999999999", b"-1", b"4294967297"])
async def test_a_hunk_with_an_impossible_count(count: bytes, gate: RealGate) -> None:
    forged = b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1,%s +1,%s @@\n-one\n+two\n" % (count, count)
    assert codes(await judged(gate, forged)) == ["patch_malformed"]


async def test_the_same_file_twice_in_one_patch(gate: RealGate) -> None:
    """The second part may undo what the first one showed: what counts is the tree that comes out."""
    forged = (
        b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-one\n+two\n"
        b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-two\n+three\n"
    )
    if codes(await judged(gate, forged)) == []:
        tree = await gate.compose(forged)
        mirror = await gate.gates.mirrors.open(gate.repository.url)
        (entry,) = await mirror.files(tree, ("src/app.py",))
        assert await mirror.blob(entry.object_id) == b"three\n"
        assert gate.run.candidate
        assert b"+three" in await gate.bus.get_artifact(gate.run.candidate.patch)


@pytest.mark.parametrize("path", [b"../escape", b"src/../../escape", b"/etc/passwd", b"src/./x", b"src//x", b"a/src/x", b""])
async def test_a_path_that_climbs(path: bytes, gate: RealGate) -> None:
    forged = b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n" % (path, path, path)
    report = await judged(gate, forged)
    assert report.verdict == "FAIL" or path in {b"src/./x", b"src//x"}
    assert not (gate.repository.path.parent / "escape").exists()


@pytest.mark.parametrize("mode", [b"100664", b"100600", b"040000", b"160000", b"020000", b"777777", b"100755", b"120000"])
async def test_a_new_file_with_a_mode_of_its_own(mode: bytes, gate: RealGate) -> None:
    forged = b"diff --git a/src/x b/src/x\nnew file mode %s\n--- /dev/null\n+++ b/src/x\n@@ -0,0 +1 @@\n+x\n" % mode
    report = await judged(gate, forged)
    assert report.verdict == "FAIL"
    assert set(codes(report)) <= {
        "patch_malformed",
        "patch_does_not_apply",
        "executable_refused",
        "symlink_refused",
        "submodule_refused",
    }


async def test_a_binary_delta_against_a_blob_that_the_patch_only_names(gate: RealGate) -> None:
    blob = gate.repository.git("rev-parse", "HEAD:README.md").strip()
    forged = (
        b"diff --git a/src/app.py b/src/app.py\nindex " + blob + b".." + b"2" * 40 + b" 100644\nGIT binary patch\n"
        b"delta 6\nNcmZ?wfdB#k00000\n\ndelta 6\nNcmZ?wfdB#k00000\n\n"
    )
    assert codes(await judged(gate, forged)) == ["patch_malformed"]


async def test_a_patch_that_only_claims_to_be_about_text(gate: RealGate) -> None:
    forged = b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-one\n+tw\0o\n"
    assert codes(await judged(gate, forged)) == ["binary_refused"]


@pytest.mark.parametrize(
    "garbage", [b"\0" * 100, b"diff --git", b"\xff" * 1000, b"GIT binary patch\n", b"@@ -1 +1 @@\n-one\n+two\n"]
)
async def test_garbage_is_refused_and_breaks_nothing(garbage: bytes, gate: RealGate) -> None:
    assert codes(await judged(gate, garbage)) == ["patch_malformed"]
    assert codes(await judged(gate, gate.patch({"src/app.py": b"two\n"}))) == []
