"""Metadata of the uninstalled project for its environment: name, version, scripts, entry points.

A ``dist-info`` folder, as an installer creates it, and the scripts; no file of the project. So ``importlib.metadata`` finds
it, and ``import`` finds the candidate.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.app.environments.requirements import normalise_name
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.project_settings import read_toml
from gatewright.foreign_documents import table_of
from gatewright.patterns import TextPattern

_NAME = TextPattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION = TextPattern(r"[0-9][0-9A-Za-z.+!_-]{0,63}")
_GROUP = TextPattern(r"\w[\w.:-]{0,99}")
_KEY = TextPattern(r"[^\s\[\]=][^\n\r\[\]=]{0,99}")
_TARGET = TextPattern(r"(?P<module>[A-Za-z_][\w.]{0,199})(?::(?P<attribute>[A-Za-z_][\w.]{0,199}))?")
_ASSIGNED = TextPattern(
    r"""(?m)^(?:__version__|VERSION|version|__version)[^=\n]{0,40}=[ \t]{0,9}["'][0-9][0-9A-Za-z.+!_-]{0,63}["']"""
)
#: For a version that only a build would determine.
_UNKNOWN = "0.0.0"
_SCRIPT = """#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit({attribute}())
"""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """``points`` are (group, name, target); scripts are those of the group ``console_scripts``."""

    name: str
    version: str
    points: tuple[tuple[str, str, str], ...]


async def project_record(tree: TreeFiles) -> ProjectRecord | None:
    """Return the record of the project at the top of ``tree``; None without metadata."""
    content = await tree.read("pyproject.toml") if "pyproject.toml" in tree.paths else None
    document = read_toml(content or b"")
    tool = table_of(document, "tool")
    poetry = table_of(tool, "poetry")
    project = table_of(document, "project") or poetry
    name = project.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        return None
    version = project.get("version")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        version = await _written_version(tree, tool, name)
    tables = {
        "console_scripts": {**table_of(project, "scripts"), **table_of(poetry, "scripts")},
        **table_of(project, "entry-points"),
        **table_of(poetry, "plugins"),
    }
    return ProjectRecord(name, version, tuple(sorted(_points(tables))))


def write_project_record(prefix: Path, record: ProjectRecord) -> None:
    """Write the record into the fresh environment ``prefix``; existing files stay. Blocks."""
    site = next(iter(prefix.glob("lib/python*/site-packages")), None)
    if site is None:
        return
    folder = site / f"{normalise_name(record.name).replace('-', '_')}-{record.version}.dist-info"
    if folder.exists():
        return
    folder.mkdir(mode=0o755)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {record.name}\nVersion: {record.version}\n", "utf-8")
    (folder / "INSTALLER").write_text("gatewright\n", "ascii")
    groups = dict.fromkeys(group for group, _, _ in record.points)
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for each, name, target in record.points if each == group) + "\n"
        for group in groups
    )
    (folder / "entry_points.txt").write_text(text, "utf-8")
    scripts: list[Path] = []
    for group, name, target in record.points:
        place, found = prefix / "bin" / name, _TARGET.fullmatch(target)
        attribute = found.get("attribute") if found is not None else None
        if (
            group == "console_scripts"
            and found is not None
            and attribute
            and not os.path.lexists(place)
            and _NAME.fullmatch(name) is not None
        ):
            python = prefix / "bin" / "python"
            words = {"module": found["module"], "first": attribute.partition(".")[0], "attribute": attribute}
            place.write_text(_SCRIPT.format(python=python, **words), "utf-8")
            place.chmod(0o755)
            scripts.append(place)
    written = [*(folder / name for name in ("METADATA", "INSTALLER", "entry_points.txt")), *scripts]
    lines = [record_line(os.path.relpath(each, site), each.read_bytes()) for each in written]
    (folder / "RECORD").write_text("".join([*lines, f"{folder.name}/RECORD,,\n"]), "utf-8")


def record_line(path: str, content: bytes) -> str:
    """Return the line of an installed file in a RECORD: path, digest and size (PEP 376)."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _points(tables: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    for group, entries in tables.items():
        if _GROUP.fullmatch(group) is None or not isinstance(entries, dict):
            continue
        for name, target in entries.items():
            if isinstance(target, str) and _TARGET.fullmatch(target.strip()) and _KEY.fullmatch(name) is not None:
                yield group, name.strip(), target.strip()


async def _written_version(tree: TreeFiles, tool: Mapping[str, Any], name: str) -> str:
    """Return the version from the file that the backend would read, or from the usual files."""
    package = normalise_name(name).replace("-", "_")
    attribute = table_of(tool, "setuptools", "dynamic", "version").get("attr")
    module = attribute.rpartition(".")[0].replace(".", "/") if isinstance(attribute, str) else package
    version_path = table_of(tool, "hatch", "version").get("path")
    usual = [f"{top}{each}" for each in (module, package) for top in ("src/", "")]
    endings = ("/__init__.py", "/_version.py", "/__version__.py", "/version.py", "/__about__.py", ".py")
    for path in (
        *([version_path] if isinstance(version_path, str) else []),
        *(f"{top}{ending}" for top in usual for ending in endings),
    ):
        content = await tree.read(path) if path in tree.paths else None
        if content is not None and (found := _ASSIGNED.findall(content[:65536].decode("utf-8", "replace"))):
            return found[0].rstrip("\"'").replace("'", '"').rpartition('"')[2]
    return _UNKNOWN
