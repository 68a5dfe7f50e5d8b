"""Taking the right to write from a process. That it cannot write then is shown by the attacks on the reviewer."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gatewright.confinement import confine_writes

PROGRAM = """
import sys, threading
from pathlib import Path
from gatewright.confinement import confine_writes

allowed, forbidden = map(Path, sys.argv[1:])
how = confine_writes([allowed])
outcomes = [how]

def write(place):
    try:
        (place / "note").write_text("x")
        outcomes.append("done")
    except PermissionError:
        outcomes.append("refused")

for place in (allowed, forbidden):
    thread = threading.Thread(target=write, args=(place,))
    thread.start()
    thread.join()
open("/dev/null", "w").write("x")
print(*outcomes)
"""


def test_threads_that_are_started_later_are_confined_as_well(tmp_path: Path) -> None:
    places = [tmp_path / "allowed", tmp_path / "forbidden"]
    for place in places:
        place.mkdir()
    finished = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, places)], capture_output=True, text=True, check=True)
    if finished.stdout.startswith("not confined"):
        pytest.skip(finished.stdout)
    assert finished.stdout == "landlock done refused\n"


def test_an_old_kernel_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_names, **_options: SimpleNamespace(syscall=lambda *_words: 2))
    assert confine_writes([tmp_path]) == "not confined: this kernel's Landlock has version 2, 3 is needed"


def test_another_system_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert confine_writes([tmp_path]) == "not confined: there is no Landlock on darwin"
