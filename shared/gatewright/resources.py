"""The files that come with the package: beside the code in a checkout, inside the package once installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def schema_directory() -> Path:
    """The folder of the ``*.v1.json`` schemas and their examples."""
    return _existing_folder(_PACKAGE / "_schemas", _PACKAGE.parent / "schemas")


def policy_directory() -> Path:
    """Return the folder of the policies that come with the package."""
    return _existing_folder(_PACKAGE / "_policies", _PACKAGE.parent.parent / "policies")


def _existing_folder(installed: Path, checkout: Path) -> Path:
    return installed if installed.is_dir() else checkout
