"""Which Pythons are found on a machine: real ones by what they say of themselves, and programs that only have the name."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

FINDER = Path(__file__).resolve().parents[2] / ".ci" / "interpreters.py"
BASE = Path(sys.base_prefix, "bin", "python3")
MINE = platform.python_version()


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def claiming(path: Path, version: str, *, plain: str = "true", usable: int = 0) -> Path:
    """A program that says that it is a Python of this version."""
    said = f'["{version}", {plain}, "{path}"]'
    return program(path, f"case \"$2\" in -c) echo '{said}' ;; *) echo 'it has no module ensurepip' >&2; exit {usable} ;; esac")


def find(**environment: str | Path) -> tuple[dict[str, str], str]:
    """What is found with this environment: programs by version, and the complaints."""
    variables = {"PATH": "", **{name: str(value) for name, value in environment.items()}}
    finished = subprocess.run([BASE, FINDER], env=variables, capture_output=True, text=True, check=False)
    return dict(line.split("\t") for line in finished.stdout.splitlines()), finished.stderr


def test_a_real_python_on_path_is_found_by_its_version(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(BASE)
    had, complaints = find(PATH=tmp_path)
    assert MINE in had
    assert f"not found: Python {MINE.rpartition('.')[0]}" not in complaints


def test_pythons_of_pyenv_and_uv_are_found_where_they_put_them(tmp_path: Path) -> None:
    pyenv = claiming(tmp_path / "pyenv/versions/3.14.90/bin/python3", "3.14.90")
    uv = claiming(tmp_path / "uv/cpython-3.13.90-linux/bin/python3.13", "3.13.90")
    had, complaints = find(PYENV_ROOT=tmp_path / "pyenv", UV_PYTHON_INSTALL_DIR=tmp_path / "uv")
    assert (had["3.14.90"], had["3.13.90"]) == (str(pyenv), str(uv))
    assert "not found: Python 3.14" not in complaints


def test_a_missing_version_is_reported(tmp_path: Path) -> None:
    had, complaints = find(HOME=tmp_path)
    minors = {version.rpartition(".")[0] for version in had}
    for wanted in ("3.11", "3.12", "3.13", "3.14"):
        assert (f"not found: Python {wanted}" in complaints) == (wanted not in minors)


def test_what_is_no_plain_python_of_its_own_is_passed_over(tmp_path: Path) -> None:
    """A shim that fails, a virtual environment, an old Python, a program that says nothing of use."""
    program(tmp_path / "a/python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    claiming(tmp_path / "b/python3.13", "3.13.91", plain="false")
    claiming(tmp_path / "c/python3", "3.10.91")
    folders = (*(tmp_path / name for name in "abc"), Path(sys.prefix, "bin"))
    had, _ = find(PATH=os.pathsep.join(map(str, folders)))
    assert not {"3.13.91", "3.10.91"} & set(had)
    assert not any(Path(path).is_relative_to(sys.prefix) for path in had.values())


def test_a_python_without_venv_is_reported_with_the_reason(tmp_path: Path) -> None:
    claiming(tmp_path / "python3.14", "3.14.91", usable=1)
    had, complaints = find(PATH=tmp_path)
    assert "3.14.91" not in had
    assert "it has no module ensurepip" in complaints
