"""What cannot land is refused before any work, by name: a branch in the way, another user's repository, files of root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import LandingMode
from gatewright.git.host.local_repository import find_repository
from gatewright.git.host.owner import as_owner
from gatewright.git.mirror import Mirrors
from gatewright.sandbox.binary import find_bwrap
from tests.attacks.test_target_rules import Bare, bare, fault, ordered
from tests.git.test_landing import candidate

__all__ = ["bare"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
#: An account that no host has.
STRANGER = 54321


@pytest.mark.parametrize("packed", [False, True])
async def test_a_branch_that_blocks_run_branches_is_reported_first(bare: Bare, tmp_path: Path, packed: bool) -> None:
    bare.git("branch", "gatewright", "main")
    if packed:
        bare.git("pack-refs", "--all")
    _, run = await ordered(bare, tmp_path / "home")
    code, message = fault(run)
    assert code == "ref_in_the_way"
    assert "refs/heads/gatewright" in message


@pytest.mark.parametrize("landing", ["target", "none"])
async def test_a_branch_of_that_name_is_no_hindrance_elsewhere(bare: Bare, tmp_path: Path, landing: LandingMode) -> None:
    bare.git("branch", "gatewright", "main")
    _, run = await ordered(bare, tmp_path / "home", landing=landing)
    assert run.failure is None


async def test_a_folder_of_run_branches_that_is_read_only_is_refused(bare: Bare, tmp_path: Path) -> None:
    folder = bare.path / "refs/heads/gatewright"
    folder.mkdir(mode=0o555)
    _, run = await ordered(bare, tmp_path / "home")
    assert fault(run) == ("target_read_only", fault(run)[1])
    assert str(folder) in fault(run)[1]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every account may go into, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="gatewright-owner-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def given_to(folder: Path, user: int) -> None:
    for each in (folder, *folder.rglob("*")):
        os.chown(each, user, user, follow_symlinks=False)


def owners(folder: Path) -> set[int]:
    return {each.lstat().st_uid for each in (folder, *folder.rglob("*"))}


@needs_root
@pytest.mark.parametrize("existing", [False, True])
async def test_root_leaves_no_files_of_its_own_in_another_users_repository(
    bare: Bare, tmp_path: Path, open_folder: Path, existing: bool
) -> None:
    target = open_folder / "target.git"
    shutil.copytree(bare.path, target)
    given_to(target, STRANGER)
    mirror = await Mirrors(tmp_path / "mirrors").open(str(target))
    await mirror.ensure(bare.source.head())
    made = await candidate(mirror, bare.source.head())
    ref, expected = ("refs/heads/main", bare.source.head()) if existing else ("refs/heads/gatewright/run-1", None)
    await mirror.push(made, ref, expected=expected)
    assert await mirror.current(ref) == made
    assert owners(target) == {STRANGER}


@needs_root
async def test_a_repository_that_its_owner_cannot_reach_is_refused_before_any_work(bare: Bare, tmp_path: Path) -> None:
    """Below a folder of root for root alone, say."""
    bare.path.parent.chmod(0o700)
    given_to(bare.path, STRANGER)
    _, run = await ordered(bare, tmp_path / "home")
    code, message = fault(run)
    assert code == "target_not_own"
    assert str(STRANGER) in message


@needs_root
async def test_a_repository_of_ones_own_needs_no_other_account(bare: Bare) -> None:
    assert as_owner(find_repository(str(bare.path))) == ()


def test_a_target_on_a_read_only_disk_is_refused(bare: Bare) -> None:
    """Its modes say that it may be written."""
    words = (
        "import sys\n"
        "from gatewright.git.host.local_repository import find_repository\n"
        "from gatewright.git.host.target_rules import target_rules\n"
        "print(*[fault.reason for fault in target_rules(find_repository(sys.argv[1])).faults()])"
    )
    place = str(bare.path)
    walls = (str(find_bwrap().path), "--dev-bind", "/", "/", "--ro-bind", place, place)
    done = subprocess.run((*walls, sys.executable, "-c", words, place), capture_output=True, text=True, check=True)
    assert done.stdout.split()[:1] == ["target_read_only"]
