"""``stack.json``: who is believed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gatewright.app.stack import state
from gatewright.app.stack.processes import identity
from gatewright.errors import ConfigurationError, UnavailableError


def make_state(**changes: object) -> state.StackState:
    """A stack that this test process pretends to run."""
    who = identity(os.getpid())
    assert who is not None
    made = state.StackState(
        pid=os.getpid(),
        boot=who.boot,
        started=who.started,
        url="nats://127.0.0.1:1",
        keys="/h/bus",
        home="/h",
        shared=True,
        workers=2,
    )
    return msgspec.structs.replace(made, **changes)


def test_what_was_written_is_read_by_its_owner_only(tmp_path: Path) -> None:
    state.write(tmp_path, make_state())
    assert state.read(tmp_path) == make_state()
    assert (tmp_path / state.STATE_FILE).stat().st_mode & 0o777 == 0o600


def test_nothing_is_read_where_no_stack_ever_was(tmp_path: Path) -> None:
    assert state.read(tmp_path) is None
    assert state.read(tmp_path / "absent") is None


@pytest.mark.parametrize("change", [{"pid": 2**22 + 1}, {"started": 1}, {"boot": "another boot"}])
def test_state_of_a_dead_or_reused_process_is_ignored(tmp_path: Path, change: dict[str, object]) -> None:
    state.write(tmp_path, make_state(**change))
    assert state.read(tmp_path) is None


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    state.write(tmp_path, make_state())
    (tmp_path / state.STATE_FILE).chmod(0o644)
    with pytest.raises(ConfigurationError):
        state.read(tmp_path)


def test_symbolic_link_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    state.write(elsewhere, make_state())
    (tmp_path / state.STATE_FILE).symlink_to(elsewhere / state.STATE_FILE)
    with pytest.raises(ConfigurationError):
        state.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_torn_or_foreign_content_is_no_stack(tmp_path: Path, content: bytes) -> None:
    (tmp_path / state.STATE_FILE).write_bytes(content)
    (tmp_path / state.STATE_FILE).chmod(0o600)
    assert state.read(tmp_path) is None


def test_home_is_held_by_one_at_a_time_and_freed_by_death(tmp_path: Path) -> None:
    holder = (
        "import sys, time; from pathlib import Path; from gatewright.app.stack.state import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", holder, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(UnavailableError) as refused, state.exclusive(tmp_path):
        pass
    assert refused.value.reason == "home_in_use"
    process.kill()
    process.wait()
    process.stdout.close()
    with state.exclusive(tmp_path):
        pass
