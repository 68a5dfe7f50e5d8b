"""A patch of tens of megabytes: stored once in its bundle, verified with its repository, and no way in for another name."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.evidence.disk import Disk
from gatewright.evidence.layout import SHARED_FROM
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from tests.evidence.recorded_runs import GitFacts, RecordedRun, make_success
from tests.evidence.test_repository import trailers
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository
from tests.series import lengths

__all__ = ["first_repository", "make_repository"]

#: The places of a lone worker's patch.
PLACES = ("patch.diff", "git/patch.diff")
#: Bytes: above what is shared, and as much as a large refactoring had that was tried.
SIZES = lengths(9 << 20, 77 << 20)


def make_large(size: int) -> RecordedRun:
    names = b"".join(b"diff --git a/%s b/%s\n" % (name, name) for name in (b"src/a.py",))
    return make_success(GitFacts(names=(b"src/a.py",), patch=names + b" " * size + b"\n"))


def seal(run: RecordedRun, signer: Signer, root: Path, disk: Disk | None = None) -> Path:
    return Path(asyncio.run(BundleWriter(root, disk).seal(run.run, run.transitions, run.store, signer)).location)


def test_large_file_is_stored_once_under_all_its_names(signer: Signer, tmp_path: Path) -> None:
    bundle = seal(make_large(SHARED_FROM), signer, tmp_path)
    first, *others = (bundle / place for place in PLACES)
    assert all(other.samefile(first) for other in others)
    assert verify(bundle, [signer.public]).ok
    assert first.stat().st_nlink == len(PLACES)


def test_small_files_are_not_shared(signer: Signer, tmp_path: Path) -> None:
    bundle = seal(make_success(), signer, tmp_path)
    assert {path.stat().st_nlink for path in bundle.rglob("*") if path.is_file()} == {1}


def test_sealing_again_changes_nothing_and_a_name_outside_is_cut_off(signer: Signer, tmp_path: Path) -> None:
    run = make_large(SHARED_FROM)
    bundle = seal(run, signer, tmp_path)
    inode = (bundle / "patch.diff").stat().st_ino
    assert seal(run, signer, tmp_path).joinpath("patch.diff").stat().st_ino == inode
    (tmp_path / "outside").hardlink_to(bundle / "patch.diff")
    assert {finding.code for finding in verify(bundle, [signer.public]).findings} >= {"hard_link"}
    seal(run, signer, tmp_path)
    assert (tmp_path / "outside").stat().st_nlink == 1
    assert verify(bundle, [signer.public]).ok


def test_copy_that_does_not_keep_the_names_together_verifies(signer: Signer, tmp_path: Path) -> None:
    bundle = seal(make_large(SHARED_FROM), signer, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    assert (copy / "patch.diff").stat().st_nlink == 1
    assert verify(copy, [signer.public]).ok


class DiskWithoutLinks(Disk):
    def link(self, first: Path, path: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path), None, str(first))


def test_file_system_without_second_names_gets_the_bytes_again(signer: Signer, tmp_path: Path) -> None:
    bundle = seal(make_large(SHARED_FROM), signer, tmp_path, DiskWithoutLinks())
    assert {(bundle / place).stat().st_nlink for place in PLACES} == {1}
    assert verify(bundle, [signer.public]).ok


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_honest_patch_of_many_megabytes_verifies_with_its_repository(repository: Repository, tmp_path: Path, size: int) -> None:
    async def land() -> GitFacts:
        mirror = await Mirrors(tmp_path / "landing").open(repository.url)
        baseline = await mirror.resolve("main")
        before = await mirror.tree_of(baseline)
        lines = b"".join(b"%064d\n" % number for number in range(size // 64))
        tree = await mirror.write_tree(before, [FileChange(b"src/large.txt", "100644", lines)])
        facts = GitFacts(baseline, before, tree, "", await mirror.diff(before, tree), (b"src/large.txt",))
        commit = await mirror.commit_tree(tree, parent=baseline, message=trailers(facts), when=datetime(2026, 1, 2, tzinfo=UTC))
        await mirror.push(commit, "refs/heads/landed", expected=None)
        return replace(facts, commit=commit)

    facts = asyncio.run(land())
    assert len(facts.patch) > size
    signer = Signer(keys.create(tmp_path / "gatekeeper.pem"))
    bundle = seal(make_success(facts), signer, tmp_path / "runs")
    assert (bundle / "git/patch.diff").samefile(bundle / "patch.diff")
    found = verify(bundle, [signer.public], repository.url)
    assert found.findings == ()
    assert found.checked[-1] == "8 repository"
