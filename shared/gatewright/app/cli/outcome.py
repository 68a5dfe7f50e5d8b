"""Exit codes, and the conversion of errors and finished runs into them.

An error keeps its cause if this host failed the command, a package is not installed, or an input is unusable. Any other error
is a defect of the program, and is reported with its trace.
"""

from __future__ import annotations

import errno
import os
import re
from enum import IntEnum
from pathlib import Path

from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.host_errors import host_error, too_deep
from gatewright.reasons import Family, exit_code_of

#: Errors of the operating system that are about a given name, not about the host.
_NAMES = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY})
_OWN = frozenset({"gatewright"})
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)")  # noqa: TID251 - linear: anchored, of our own package's metadata
_EXTRA = re.compile(r"extra\s*==\s*['\"]([A-Za-z0-9_-]+)['\"]")  # noqa: TID251 - of our own package's metadata


class Exit(IntEnum):
    """The exit codes that scripts may rely on."""

    GOOD = 0
    FAILED = 1
    INPUT = 2
    INFRASTRUCTURE = 3


def exit_of_error(error: GatewrightError) -> Exit:
    """Return the exit code for the family of the error's reason."""
    return Exit(exit_code_of(error.family))


def exit_of_run(family: Family | None) -> Exit:
    """Return the exit code of a run whose failure has a reason of this family (None: it succeeded)."""
    return Exit.GOOD if family is None else Exit(exit_code_of(family))


def as_known(error: BaseException) -> GatewrightError | None:
    """Convert ``error`` to an error of this package; None for a defect."""
    if isinstance(error, BaseExceptionGroup):
        known = [as_known(each) for each in error.exceptions]
        return None if None in known else known[0]
    if isinstance(error, GatewrightError):
        return error
    if isinstance(error, RecursionError):
        return too_deep()
    if isinstance(error, ImportError):
        return _missing_package_error(error)
    if isinstance(error, OSError) and error.errno in _NAMES and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
        return MalformedError(f"{name}: {error.strerror}", code="path_unusable")
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        words = "the folder in which this was started is gone: change to another one"
        return MalformedError(words, code="path_unusable")
    return host_error(error)


def _is_nowhere() -> bool:
    """Return whether the current folder was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _missing_package_error(error: ImportError) -> GatewrightError | None:
    """Convert the error of a package that is missing or cannot be loaded; None for a module of this package."""
    top = (error.name or "").partition(".")[0]
    if not top or top in _OWN:
        return None
    extra = _extra_of(top)
    words = f"the Python package that provides {top} is not installed, or does not fit this Python ({error.msg})"
    return UnavailableError(f"{words}: pip install '/path/to/gatewright[{extra}]'", code="package_missing")


def _extra_of(module: str) -> str:
    """Return the extra of this package that installs a module; by default that of the whole command line."""
    # Imported late: only an error needs it.
    import importlib.metadata

    names = {name.lower().replace("_", "-") for name in importlib.metadata.packages_distributions().get(module, ())}
    names.add(module.lower().replace("_", "-"))
    try:
        required = importlib.metadata.requires("gatewright") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    for line in required:
        name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        if name and extra and name[1].lower().replace("_", "-") in names and extra[1] not in ("cli", "dev"):
            return extra[1]
    return "cli"
