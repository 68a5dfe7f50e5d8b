"""List the supported Pythons of this machine: one line each, version and program, separated by a tab.

The script searches PATH and the folders of Debian, pyenv and uv, and runs each program to learn its version. It reports missing
and unusable versions on standard error. It skips virtual environments, pre-releases and other implementations.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

WANTED = ("3.11", "3.12", "3.13", "3.14")
NAME = re.compile(r"python3(\.\d+)?")
USABLE = Path(__file__).with_name("usable.py")
#: Prints version, kind and path of a Python; a pyenv shim without a version fails.
ASKED = """
import json, platform, sys, sysconfig
plain = sys.implementation.name == "cpython" and sys.version_info.releaselevel == "final" and sys.prefix == sys.base_prefix
plain = plain and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(json.dumps([platform.python_version(), plain, sys.executable]))
"""


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield programs that may be Pythons, those on PATH first."""
    home = Path(environment.get("HOME", "/nonexistent"))
    folders = [Path(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    folders += [Path("/usr/local/bin"), Path("/usr/bin")]
    kept = Path(environment.get("PYENV_ROOT", home / ".pyenv"), "versions")
    uv = Path(
        environment.get("UV_PYTHON_INSTALL_DIR", Path(environment.get("XDG_DATA_HOME", home / ".local/share"), "uv/python"))
    )
    folders += [*sorted(kept.glob("*/bin")), *sorted(uv.glob("*/bin"))]
    for folder in dict.fromkeys(folders):
        if folder.is_dir():
            named = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and os.access(path, os.X_OK))
            yield from {path.resolve(): path for path in named}.values()


def output_of(program: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Return the finished process of a program, or None if it cannot run."""
    try:
        return subprocess.run([program, "-I", *words], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def found(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return one program per version, and messages about unusable versions."""
    had, complaints = {}, {}
    for program in candidates(environment):
        answer = output_of(program, "-c", ASKED)
        if answer is None or answer.returncode != 0:
            continue
        version, plain, itself = json.loads(answer.stdout)
        if not plain or version in had or version.rpartition(".")[0] not in WANTED:
            continue
        looked = output_of(program, str(USABLE))
        if looked is not None and looked.returncode == 0:
            had[version] = itself
        else:
            complaints[version] = f"unusable: {looked.stderr.strip() if looked else program}"
    return had, [complaint for version, complaint in complaints.items() if version not in had]


def main() -> int:
    had, complaints = found(os.environ)
    for version in sorted(had, key=lambda version: [int(number) for number in version.split(".")]):
        print(version, had[version], sep="\t")
    missing = [wanted for wanted in WANTED if not any(version.startswith(f"{wanted}.") for version in had)]
    for line in (*complaints, *(f"not found: Python {wanted}" for wanted in missing)):
        print(line, file=sys.stderr)
    return 0 if had else 1


if __name__ == "__main__":
    sys.exit(main())
