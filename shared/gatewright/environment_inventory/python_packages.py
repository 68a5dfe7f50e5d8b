"""Packages of Python: every ``*.dist-info`` of a prefix, and its files against RECORD (PyPA, recording installed projects)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import posixpath
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from typing import Final

from gatewright.environment_inventory.trees import InstalledTree, host_of, one_line
from gatewright.sandbox.environments import EGRESS_LOG, PREPARED

_SITES: Final = ("site-packages", "dist-packages")
_KINDS: Final = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_ALGORITHMS: Final = ("sha256", "sha384", "sha512")
#: Files of an installer about its own work: different for the same package.
_OF_INSTALLER: Final = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json")
#: Files that tools write into an environment of their own, and that no package starts.
_OWN: Final = ("pyvenv.cfg", ".gitignore", "CACHEDIR.TAG", ".lock", PREPARED, EGRESS_LOG, "lib64")
_SCRIPTS: Final = ("activate", "Activate.ps1", "deactivate.bat", "pydoc.bat", "python", "pypy")


def sites_of(tree: InstalledTree) -> list[str]:
    """Return the folders that interpreters import packages from: ``lib/pythonX.Y/site-packages`` at any depth."""
    sites = set()
    for path in tree.files:
        parts = path.split("/")
        place = next((at for at, part in enumerate(parts[:-1]) if part in _SITES and at > 1), 0)
        if place and parts[place - 2] in {"lib", "lib64"} and parts[place - 1].startswith(("python", "pypy")):
            sites.add("/".join(parts[: place + 1]))
    return sorted(sites)


def read_python(tree: InstalledTree) -> None:
    """Fill in ``tree``: each package by its metadata, and its files by RECORD.

    Of a virtual environment all other files are unknown, of another prefix those among its packages.
    """
    sites = sites_of(tree)
    tree.version = sites[0].split("/")[-2].lstrip("python") if sites else ""
    virtual = "pyvenv.cfg" in tree.files
    for line in tree.read("pyvenv.cfg").decode("utf-8", "replace").splitlines() if virtual else ():
        key, _, value = (part.strip() for part in line.partition("="))
        if key in {"version", "version_info"}:
            tree.version = one_line(value)
        elif key == "include-system-site-packages" and value.lower() == "true":
            tree.fault("packages of the system are visible too, and not listed")
    for site in sites:
        names = {path.split("/")[site.count("/") + 1] for path in tree.files if path.startswith(f"{site}/")}
        for folder in sorted(name for name in names if name.endswith(tuple(_KINDS))):
            _read_package(tree, site, folder)
    for path in (tree.files.keys() | tree.others) - tree.known:
        folder, _, name = path.rpartition("/")
        own = path in _OWN or (folder == "bin" and name.startswith(_SCRIPTS))
        if not own and (virtual or path.startswith(tuple(f"{site}/" for site in sites))):
            tree.unknown.add(path)


def _read_package(tree: InstalledTree, site: str, folder: str) -> None:
    place = f"{site}/{folder}"
    stem, dot, kind = folder.rpartition(".")
    data = tree.read(place if place in tree.files else f"{place}/{_KINDS[dot + kind]}")
    metadata = HeaderParser().parsestr(data.decode("utf-8", "replace"))
    name, version = _field(metadata, "Name"), _field(metadata, "Version")
    if _normal(name) != _normal(stem.partition("-")[0]):
        tree.fault(f"{folder} calls itself {name!r:.200}")
    if any(_normal(each.name) == _normal(name) for each in tree.packages):
        tree.fault(f"{name} is there more than once")
    url, recorded = f"{place}/direct_url.json", {f"{place}/RECORD"}
    content = _compare_record(tree, site, place, recorded)
    source = host_of(tree.read_object(url).get("url")) if url in tree.files else None
    direct = True if f"{place}/REQUESTED" in tree.files else None
    if tree.add("pypi", name, version, licence=_licence(metadata), content_sha256=content, source=source, direct=direct):
        tree.known |= recorded


def _compare_record(tree: InstalledTree, site: str, place: str, known: set[str]) -> str | None:
    """Compare the files that RECORD lists, and add them to ``known``; return the digest of content that is as recorded."""
    altered, content = False, []
    for listed, recorded in _rows(tree, f"{place}/RECORD"):
        path = posixpath.normpath(posixpath.join(site, listed))
        algorithm, _, digest = recorded.partition("=")
        if path.startswith(("/", "../")):
            tree.fault(f"{place}/RECORD names {listed}, which is outside of the environment")
        elif algorithm in _ALGORITHMS and "__pycache__" not in path:
            # Without a digest a record proves nothing: the file stays unknown.
            known.add(path)
            actual = base64.urlsafe_b64encode(tree.digest(path, algorithm)).decode()
            if actual.rstrip("=") != digest.rstrip("="):
                tree.altered.add(path)
                altered = True
            elif path.startswith(f"{site}/") and posixpath.basename(path) not in _OF_INSTALLER:
                content.append(f"{listed}\0{recorded}\n")
    whole = hashlib.sha256("".join(sorted(content)).encode("utf-8", "replace"))
    return None if altered or not content else whole.hexdigest()


def _rows(tree: InstalledTree, path: str) -> Iterator[tuple[str, str]]:
    try:
        for row in csv.reader(io.StringIO(tree.read(path).decode("utf-8", "surrogateescape"), newline="")):
            if row and row[0]:
                yield row[0], row[1] if len(row) > 1 else ""
    except csv.Error as error:
        tree.fault(f"{path} cannot be read: {error}")


def _licence(metadata: Message) -> str:
    """Return the expression (core metadata 2.4), else the declared text, else the classifiers."""
    declared = _field(metadata, "License-Expression") or _field(metadata, "License")
    if declared and declared != "UNKNOWN":
        return declared
    classifiers = (one_line(str(each)) for each in metadata.get_all("Classifier") or ())
    return one_line("; ".join(each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")))


def _field(metadata: Message, name: str) -> str:
    return one_line(str(metadata.get(name) or ""))


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
