"""A registry without a network: a folder of wheels, and pip told to look nowhere else."""

from __future__ import annotations

import hashlib
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

from gatewright.app.environments.project_record import record_line
from tests.environments.registries import Reply


def make_wheel(folder: Path, name: str, version: str = "1.0", files: Mapping[str, str] | None = None) -> Path:
    """A wheel with one module of the package's name, and ``files``."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    content = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(files or {}),
    }
    lines = [record_line(path, text.encode()) for path, text in content.items()]
    content[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"])
    place = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for path, text in content.items():
            member = zipfile.ZipInfo(path)
            member.external_attr = (stat.S_IFREG | (0o755 if ".data/scripts/" in path else 0o644)) << 16
            wheel.writestr(member, text)
    return place


def pip_for(folder: Path) -> dict[str, str]:
    """Variables for an installer that has nothing but the wheels in ``folder``."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
    }


def index_of(folder: Path) -> dict[str, bytes | Reply]:
    """The pages of an index (PEP 503) with the distributions in ``folder``."""
    pages: dict[str, bytes | Reply] = {}
    links: dict[str, str] = {}
    for place in sorted(folder.iterdir()):
        content = place.read_bytes()
        name = place.name.partition("-")[0]
        pages[f"/files/{place.name}"] = content
        digest = hashlib.sha256(content).hexdigest()
        links[name] = links.get(name, "") + f'<a href="../../files/{place.name}#sha256={digest}">{place.name}</a>'
    return {**pages, **{f"/simple/{name}/": f"<!DOCTYPE html><body>{link}</body>".encode() for name, link in links.items()}}


def pip_from(address: str, home: Path) -> dict[str, str]:
    """Variables for an installer whose one registry is the index at ``address``."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": f"{address}/simple"}
