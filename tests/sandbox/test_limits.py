"""Commands that use too much: each is stopped, and what stopped it is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.sandbox import SandboxLimits
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, Run, processes_with

MIB = 1 << 20


async def test_fork_bomb_is_contained(run: Run) -> None:
    """Also when we are root: the kernel counts no processes of root, so commands are not root."""
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 31"
    limits = replace(LIMITS, processes=40, wall_seconds=1)
    task = asyncio.ensure_future(run("sh", "-c", bomb, limits=limits))
    most = 0
    while not task.done():
        await asyncio.sleep(0.05)
        most = max(most, len(processes_with("bomb() {")))
    assert most < 60
    assert (await task).stdout == b""
    assert not processes_with("bomb() {")


async def test_process_count_is_the_sandboxs_own(run: Run) -> None:
    """Two sandboxes at once have the whole limit each."""
    limits = replace(LIMITS, processes=12)
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.3 & done; wait; echo fine"
    both = await asyncio.gather(*(run("sh", "-c", script, limits=limits) for _ in range(2)))
    assert [completed.stdout for completed in both] == [b"fine\n", b"fine\n"]


async def test_endless_output_is_contained(run: Run) -> None:
    completed = await run("yes", limits=replace(LIMITS, output_bytes=MIB))
    assert completed.truncated
    assert completed.stopped == "output"
    assert len(completed.stdout) == MIB
    assert not completed.timed_out


async def test_output_limit_is_for_both_streams(run: Run) -> None:
    script = "yes | head -c 600; yes no | head -c 600 >&2; exit 3"
    completed = await run("sh", "-c", script, limits=replace(LIMITS, output_bytes=1000))
    assert (completed.truncated, completed.stopped, completed.exit_code) == (True, "", 3)
    assert len(completed.stdout) + len(completed.stderr) == 1000


async def test_a_long_output_is_cut_and_its_command_goes_on(run: Run) -> None:
    script = "yes | head -c 20000000; echo done >&2"
    completed = await run("sh", "-c", script, limits=replace(LIMITS, output_bytes=MIB))
    assert (completed.truncated, completed.stopped, completed.exit_code) == (True, "", 0)
    assert len(completed.stdout) == MIB


async def test_output_at_the_limit_is_whole(run: Run) -> None:
    completed = await run("sh", "-c", "yes | head -c 1000", limits=replace(LIMITS, output_bytes=1000))
    assert (completed.exit_code, len(completed.stdout), completed.truncated) == (0, 1000, False)


async def test_memory_hog_is_contained(run: Run, python: Path) -> None:
    completed = await run(
        "python", "-c", "x = bytearray(400 << 20)", prefix=python, limits=replace(LIMITS, memory_bytes=200 * MIB)
    )
    assert completed.exit_code == 1
    assert b"MemoryError" in completed.stderr


async def test_memory_hog_of_many_processes_is_contained(run: Run, python: Path) -> None:
    """Each process stays below the limit; all together do not."""
    code = "import os, time\nfor _ in range(4): os.fork()\nx = b'x' * (30 << 20)\ntime.sleep(30)"
    completed = await run("python", "-c", code, prefix=python, limits=replace(LIMITS, memory_bytes=200 * MIB))
    assert completed.stopped == "memory"
    assert completed.exit_code == 137


async def test_memory_hog_that_left_its_parents_is_contained(run: Run, python: Path) -> None:
    """A daemon is no descendant of the command any more, but still one of the namespace."""
    hog = "x = b'x' * (150 << 20); time.sleep(34)"
    daemon = f"if not os.fork():\n  os.setsid()\n  if os.fork(): os._exit(0)\n  {hog}"
    code = f"import os, time\nfor _ in range(2):\n {daemon}\ntime.sleep(34)"
    completed = await run("python", "-c", code, prefix=python, limits=replace(LIMITS, memory_bytes=200 * MIB))
    assert completed.stopped == "memory"


async def test_command_yields_to_the_service(run: Run) -> None:
    """In processor time, and when the host runs out of memory."""
    completed = await run("sh", "-c", "nice; cat /proc/self/oom_score_adj")
    assert completed.stdout.split() == [b"10", b"1000"]


async def test_shared_memory_hog_is_contained(run: Run, python: Path) -> None:
    """Shared mappings are not in a process's data size; the watch sees them."""
    code = (
        "import mmap, time\nx = mmap.mmap(-1, 400 << 20)\nx.write(bytes(150 << 20)); x.write(bytes(150 << 20))\ntime.sleep(30)"
    )
    completed = await run("python", "-c", code, prefix=python, limits=replace(LIMITS, memory_bytes=200 * MIB))
    assert completed.stopped == "memory"


async def test_reserved_address_space_is_not_counted(run: Run, python: Path) -> None:
    """JIT runtimes reserve many gigabytes that they never touch."""
    code = "import mmap; mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0); print('fine')"
    completed = await run("python", "-c", code, prefix=python)
    assert completed.stdout == b"fine\n"


async def test_huge_file_is_contained(run: Run, place: Folder) -> None:
    completed = await run("sh", "-c", "head -c 20m /dev/zero >huge", limits=replace(LIMITS, file_bytes=MIB))
    assert completed.exit_code != 0
    assert (place.path / "huge").stat().st_size == MIB


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
async def test_filling_memory_through_files_is_contained(run: Run, folder: str) -> None:
    completed = await run("sh", "-c", f"head -c 8m /dev/zero >{folder}/a", limits=replace(LIMITS, tmp_bytes=MIB))
    assert b"No space left" in completed.stderr


async def test_endless_command_is_stopped(run: Run) -> None:
    completed = await run(
        "sh", "-c", "trap '' TERM INT HUP; echo before; sleep 500; sleep 500", limits=replace(LIMITS, wall_seconds=0.3)
    )
    assert completed.timed_out
    assert completed.stopped == "time"
    assert completed.stdout == b"before\n"
    assert completed.exit_code == 137


async def test_no_core_is_left(run: Run, place: Folder) -> None:
    completed = await run("sh", "-c", "ulimit -c; kill -ABRT $$")
    assert completed.stdout == b"0\n"
    assert completed.exit_code == 128 + 6
    assert list(place.path.iterdir()) == []


def test_limits_describe_themselves() -> None:
    assert SandboxLimits() == SandboxLimits(
        wall_seconds=300, memory_bytes=4 << 30, processes=512, file_bytes=1 << 30, output_bytes=8 << 20
    )
