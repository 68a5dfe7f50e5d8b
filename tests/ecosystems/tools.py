"""Tools that these tests start where the machine has them, in a folder that a sandbox may show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gatewright.errors import GatewrightError
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.prefix import home_folders, inspect_prefix

#: Where the sandbox looks by itself.
_SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Tests that start ``programs`` of the system, which every sandbox shows."""
    missing = [each for each in programs if shutil.which(each, path=_SYSTEM) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed in the system")


def prefix_with(*programs: str) -> Path | None:
    """The environment on this PATH whose ``bin`` has all ``programs``, and that a sandbox may show."""
    found = shutil.which(programs[0])
    prefix = Path(found).parent.parent if found is not None else None
    if prefix is None or not all((prefix / "bin" / each).exists() for each in programs):
        return None
    try:
        inspect_prefix(prefix, homes=home_folders(), account=sandbox_account())
    except GatewrightError:
        return None
    return prefix
