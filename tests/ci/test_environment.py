"""An environment that another Python made is told from one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAKER = Path(__file__).resolve().parents[2] / ".ci" / "environment.py"


def is_mine(folder: Path) -> bool:
    done = subprocess.run([sys.executable, MAKER, folder, "--is-mine"], check=False, capture_output=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode == 0


def test_only_an_environment_of_another_python_is_made_anew(tmp_path: Path) -> None:
    assert is_mine(tmp_path / "absent")
    (tmp_path / ".python").write_text("3.9.0 /usr/bin/python3.9\n")
    assert not is_mine(tmp_path)


@pytest.mark.parametrize("lean", [False, True])
def test_a_failed_installation_has_its_own_code_and_no_mark(tmp_path: Path, lean: bool) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("/nowhere/at-all.whl --hash=sha256:" + "0" * 64 + "\n")
    argv = [sys.executable, str(MAKER), str(tmp_path / "made"), "--lock", str(lock), *(["--lean"] if lean else [])]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "at-all.whl" in done.stderr
    assert not (tmp_path / "made" / ".python").exists()
    assert any((tmp_path / "made").glob("lib/python*/site-packages/pip")) != lean, "what is lean has no pip of its own"
