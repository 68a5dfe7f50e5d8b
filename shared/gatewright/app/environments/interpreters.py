"""The Pythons of this host, and which of them a project can be run by."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.patterns import TextPattern

_MINORS = range(20, 7, -1)
_CLAUSE = TextPattern(r"\s*(?P<sign>>=|<=|==|!=|~=|>|<)\s*(?P<major>\d{1,3})(?:\.(?P<minor>\d{1,3}))?(?P<rest>[.\w*]*)\s*")
#: The wheels of pip, and before 3.12 of setuptools, are where a distribution keeps them (``WHEEL_PKG_DIR``), or in ensurepip.
_ASKED = """
import glob, os, sys, sysconfig
print(sys.version_info[0], sys.version_info[1], os.path.realpath(sys._base_executable))
for folder in (sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(os.path.dirname(os.__file__), "ensurepip", "_bundled")):
    print(*sorted(glob.glob(os.path.join(glob.escape(folder), "*.whl"))) if folder else (), sep="\\n")
"""


@dataclass(frozen=True, slots=True)
class Python:
    """``version`` is (major, minor); ``wheels`` are those of its pip."""

    program: str
    version: tuple[int, int]
    wheels: tuple[str, ...] = ()

    @property
    def toolchain(self) -> Path:
        """The folder with its libraries."""
        return Path(self.program).parent.parent


def usable_python(requires: str, search: str) -> Python:
    """The first that ``requires`` (a ``requires-python``) allows: the one that runs this, then those on the path ``search``.

    Blocks. Raises NotPreparedError.
    """
    seen = []
    for program in _programs(search):
        python = _query_interpreter(program)
        if python is not None:
            if allows(requires, python.version):
                return python
            seen.append(".".join(map(str, python.version)))
    raise NotPreparedError(f"the project needs Python {requires}, and this host has {', '.join(seen) or 'none'}")


def allows(requires: str, version: tuple[int, int]) -> bool:
    """Return whether a version is allowed, by its first two numbers; an unknown clause forbids nothing."""
    return all(_holds(clause, version) for clause in requires.split(",") if clause.strip())


def _holds(clause: str, version: tuple[int, int]) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return True
    major, minor, rest = int(found["major"]), int(found.get("minor", "0")), found.get("rest", "")
    wanted = (major, minor)
    exact = rest not in ("", ".*", ".0")
    match found["sign"]:
        case ">=":
            return version >= wanted
        case ">":
            return version > wanted or (version == wanted and exact)
        case "<":
            return version < wanted or (version == wanted and exact)
        case "<=":
            return version <= wanted
        case "==":
            return version == wanted if "minor" in found else version[0] == major
        case "~=":
            # ~=3.9 allows 3.10; ~=3.9.1 does not.
            return version == wanted if rest else version >= wanted and version[0] == major
        case _:
            return exact or version != wanted


def _programs(search: str) -> Iterator[str]:
    yield sys.executable
    for name in ("python3", *(f"python3.{minor}" for minor in _MINORS)):
        if found := shutil.which(name, path=search):
            yield found


def _query_interpreter(program: str) -> Python | None:
    """Return an interpreter's description of itself, or of its base for a virtual environment."""
    try:
        # Start it as commands will: without LD_LIBRARY_PATH, for example, which the sandbox gives to no program.
        asked = (program, "-I", "-c", _ASKED)
        output = subprocess.run(asked, env={}, capture_output=True, text=True, timeout=20, check=True).stdout
        first, *wheels = filter(None, output.splitlines())
        major, minor, base = first.split(" ", 2)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Python(base if Path(base).is_file() else program, (int(major), int(minor)), tuple(wheels))
