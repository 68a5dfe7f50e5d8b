"""Virtual environments as people have them: with pytest, and with the project installed in one of the usual ways."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

#: What pytest needs to run, in any environment of this interpreter.
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


def make_environment(prefix: Path, *, pytest: bool = True) -> Path:
    """A virtual environment without pip; the folder of its packages."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", prefix], check=True)
    prefix.chmod(0o755)
    site = next(prefix.glob("lib/python*/site-packages"))
    if pytest:
        ours = Path(sysconfig.get_paths()["purelib"])
        for name in _PYTEST:
            shutil.copytree(ours / name, site / name)
        shutil.copy(ours / "py.py", site)
    return site


@functools.cache
def plain_environment() -> Path:
    """One with pytest and nothing else, for all that this process tests: each start of pytest in it takes half as long as among
    the plugins and packages that these tests need themselves, and so does each look at what is installed.
    """
    folder = Path(tempfile.mkdtemp(prefix="gatewright-plain-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    make_environment(folder / "environment")
    return folder / "environment"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Files by path, with the folders that they lie in."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def script(prefix: Path, name: str, module: str, function: str) -> None:
    """A console script, as installers write it."""
    place = prefix / "bin" / name
    place.write_text(f"#!{prefix}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    place.chmod(0o755)
