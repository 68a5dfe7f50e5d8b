"""Children that die with their parent, and the family that a process has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gatewright.app.stack.processes import descendants, identity, kill_all, snapshot
from tests.waiting import PATIENCE, wait_until

PARENT = """
import subprocess, sys, time
from gatewright.app.stack.processes import dies_with_parent
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], preexec_fn=dies_with_parent())
print(child.pid, flush=True)
time.sleep(600)
"""
FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""
LATE_BORN = """
import os
from gatewright.app.stack.processes import dies_with_parent
before_exec = dies_with_parent()
if os.fork() == 0:
    # In the place of the parent that the request was made for stands this one.
    if os.fork() == 0:
        before_exec()
        os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
ADOPTER = """
import asyncio, os, subprocess, sys, time
from gatewright.app.stack.processes import adopt_orphans, descendants, end_descendants
adopt_orphans()
inner = "import time; time.sleep(600)"
middle = f'import subprocess, sys; subprocess.Popen([sys.executable, "-S", "-c", {inner!r}], start_new_session=True)'
subprocess.run([sys.executable, "-S", "-c", middle])
assert len(descendants(os.getpid())) == 1
asyncio.run(end_descendants(os.getpid()))
assert not descendants(os.getpid())
"""
SPARING = """
import asyncio, os, subprocess, sys
from gatewright.app.stack.processes import adopt_orphans, descendants, end_descendants, own_children
family = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'print(1, flush=True); input()'])"
before = subprocess.Popen([sys.executable, "-S", "-c", family], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
before.stdout.readline()
ended = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
spared = own_children()
adopt_orphans()
ended.stdin.close()
os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
since = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
assert len(descendants(os.getpid())) == 4
asyncio.run(end_descendants(os.getpid(), spared))
assert len(descendants(os.getpid())) == 3
assert ended.wait() == 1
before.communicate(b"go on")
assert before.returncode == 0
"""


LATER = """
import os, subprocess, sys
from gatewright.app.stack.processes import adopt_orphans
middle = '''import subprocess, sys
print(subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE).pid, flush=True)
input()
'''

def parent_of_an_orphan():
    parent = subprocess.Popen([sys.executable, "-S", "-c", middle], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    orphan = parent.stdout.readline().decode().strip()
    parent.kill()
    parent.wait()
    with open(f"/proc/{orphan}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])

as_before = adopt_orphans()
inner = adopt_orphans()
inner()
assert parent_of_an_orphan() == os.getpid()
as_before()
assert parent_of_an_orphan() != os.getpid()
"""


def test_child_dies_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert identity(child) is not None
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: identity(child) is None)


def test_child_that_is_born_after_its_parents_death_does_not_live() -> None:
    done = subprocess.run([sys.executable, "-c", LATE_BORN], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


def test_identity_distinguishes_a_process_from_a_zombie() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    assert wait_until(lambda: identity(process.pid) is None), "a zombie is nobody"
    process.wait()
    assert identity(process.pid) is None
    assert identity(os.getpid()) == identity(os.getpid())


def test_whole_family_is_found_and_ended() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", FAMILY])
    assert wait_until(lambda: len(descendants(process.pid)) == 1)
    family = snapshot(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kill_all(family)
    assert wait_until(lambda: all(identity(pid) is None for pid in family))


def test_orphan_in_a_session_of_its_own_is_adopted_and_ended() -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTER], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_child_from_before_is_spared_with_all_that_is_below_it() -> None:
    done = subprocess.run([sys.executable, "-c", SPARING], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_process_that_adopted_stops_when_its_stack_has_ended() -> None:
    """Else every orphan of later becomes a zombie of it, which is waited for by no task."""
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 5])
def test_an_unused_process_number_has_no_identity(pid: int) -> None:
    assert identity(pid) is None
