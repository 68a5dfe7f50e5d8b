"""Environments as tools make them, at work in the real sandbox: what they need is there, and nothing beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.places import Run

CODE = "import encodings, json, sys; print(json.dumps([sys.prefix, encodings.__file__ != '']))"
#: The interpreter that the one of the tests was made from.
BASE = Path(sys._base_executable)  # type: ignore[attr-defined]

#: The system's interpreter has no folder of its own that a link could lead to.
LAYOUTS = ["plain", "link to the program", *(["link to the folder"] if not BASE.is_relative_to("/usr") else [])]


def make_environment(place: Path, program: Path) -> Path:
    subprocess.run([program, "-m", "venv", "--without-pip", place], check=True, capture_output=True)
    return place


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_interpreter_of_an_environment_starts(run: Run, tmp_path: Path, layout: str) -> None:
    program = BASE
    if layout == "link to the program":  # uv and others: ~/.local/bin/python3.12
        program = tmp_path / "local" / "bin" / BASE.name
        program.parent.mkdir(parents=True)
        program.symlink_to(BASE)
        (tmp_path / "local" / "share").mkdir()
    elif layout == "link to the folder":  # uv and others: cpython-3.12 -> cpython-3.12.1
        (tmp_path / "version").symlink_to(BASE.parent.parent)
        program = tmp_path / "version" / "bin" / BASE.name
    prefix = make_environment(tmp_path / "env", program)
    completed = await run("python", "-c", CODE, prefix=prefix)
    assert completed.exit_code == 0, completed.stderr
    assert str(prefix).encode() in completed.stdout


async def test_folder_beside_a_link_to_the_program_is_not_there(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "local" / "bin" / BASE.name
    program.parent.mkdir(parents=True)
    program.symlink_to(BASE)
    (program.parent / "other-tool").touch()
    prefix = make_environment(tmp_path / "env", program)
    code = f"import os; print(os.listdir({str(program.parent)!r}), os.listdir({str(program.parent.parent)!r}))"
    completed = await run("python", "-c", code, prefix=prefix)
    assert completed.stdout.decode().strip() == f"['{BASE.name}'] ['bin']", completed.stderr
