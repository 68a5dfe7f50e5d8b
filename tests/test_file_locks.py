"""Locks between processes: whom they keep out, how long they are waited for, and what ends them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gatewright.file_locks import lock_file, lock_folder


def test_a_file_is_one_process_s_alone_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = lock_file(path)
    with pytest.raises(BlockingIOError):
        lock_file(path)
    os.close(first)
    os.close(lock_file(path))
    assert path.exists()


def test_shared_locks_of_a_folder_keep_only_exclusive_ones_out(tmp_path: Path) -> None:
    first, second = lock_folder(tmp_path, shared=True), lock_folder(tmp_path, shared=True)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    os.close(first)
    os.close(second)
    os.close(lock_folder(tmp_path))


def test_a_lock_waits_as_long_as_its_limit(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    begun = time.monotonic()
    with pytest.raises(BlockingIOError):
        lock_file(tmp_path / "lock", seconds=0.2)
    assert time.monotonic() - begun >= 0.2
    os.close(held)


def test_a_lock_ends_with_its_process_unless_another_has_the_descriptor(tmp_path: Path) -> None:
    """A git that outlives the process which started it keeps its mirror locked."""
    path = tmp_path / "lock"
    descriptor = lock_file(path)
    heir = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=[descriptor], stdin=subprocess.PIPE)
    os.close(descriptor)
    with pytest.raises(BlockingIOError):
        lock_file(path)
    heir.kill()
    heir.communicate()
    os.close(lock_file(path, seconds=None))


@pytest.mark.parametrize("lock", [lock_file, lock_folder])
def test_a_link_in_the_place_of_what_is_locked_leads_nowhere(tmp_path: Path, lock: type) -> None:
    place = tmp_path / "other"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(OSError, match=r"directory|links"):
        lock(tmp_path / "link")


def test_nothing_stays_open_where_no_lock_was_had(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = lock_file(path)
    with pytest.raises(BlockingIOError):
        lock_file(path)
    # Descriptors of this file alone: what other tests left may be closed at any moment.
    places = Path("/proc/self/fd").iterdir()
    assert [each for each in places if os.path.realpath(each) == str(path)] == [Path(f"/proc/self/fd/{held}")]
    os.close(held)
