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
from typing import Any, Final

from gatewright.environment_inventory.trees import InstalledTree, host_of, one_line
from gatewright.foreign_documents import UnreadableDocumentError, read_json

_SITES: Final = ("site-packages", "dist-packages")
_KINDS: Final = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_ALGORITHMS: Final = ("sha256", "sha384", "sha512")
#: Files of an installer about its own work: different for the same package.
_OF_INSTALLER: Final = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json")
_CLASSIFIER: Final = "License :: "
#: Files that tools write into an environment of their own, and that no package starts.
_OWN: Final = ("pyvenv.cfg", ".gitignore", "CACHEDIR.TAG", ".lock", "gatewright-environment.json", "lib64")
_SCRIPTS: Final = ("activate", "Activate.ps1", "deactivate.bat", "pydoc.bat", "python", "pypy")


def sites_of(tree: InstalledTree) -> list[str]:
    """Return the folders that interpreters import packages from."""
    sites = set()
    for path in tree.files:
        parts = path.split("/")
        place = next((at for at, part in enumerate(parts[:-1]) if part in _SITES and at > 1), 0)
        if place and parts[place - 2] in {"lib", "lib64"} and parts[place - 1].lstrip("py").startswith(("thon", "3")):
            sites.add("/".join(parts[: place + 1]))
    return sorted(sites)


def read_python(tree: InstalledTree) -> str:
    """Fill in ``tree``; return the interpreter's version, empty if unknown.

    1. each package by its metadata, and its files by RECORD;
    2. of a virtual environment all other files are unknown, of other prefixes those among packages.
    """
    sites = sites_of(tree)
    for site in sites:
        for folder in sorted(_metadata_folders(tree, site)):
            _read_package(tree, site, folder)
    virtual = "pyvenv.cfg" in tree.files
    for path in tree.files.keys() | tree.others:
        among = virtual or any(path.startswith(f"{site}/") for site in sites)
        if among and path not in tree.known and not _is_own(path):
            tree.unknown.add(path)
    return _version(tree, sites)


def _metadata_folders(tree: InstalledTree, site: str) -> set[str]:
    start = site.count("/") + 1
    names = {path.split("/")[start] for path in tree.files if path.startswith(f"{site}/")}
    return {name for name in names if name.endswith(tuple(_KINDS))}


def _read_package(tree: InstalledTree, site: str, folder: str) -> None:
    place = f"{site}/{folder}"
    stem, dot, kind = folder.rpartition(".")
    data = tree.read(place if place in tree.files else f"{place}/{_KINDS[dot + kind]}")
    if data is None:
        return
    metadata = HeaderParser().parsestr(data.decode("utf-8", "replace"))
    name, version = _field(metadata, "Name"), _field(metadata, "Version")
    if _normal(name) != _normal(stem.partition("-")[0]):
        tree.fault(f"{folder} calls itself {name!r:.200}")
    if any(_normal(each.name) == _normal(name) for each in tree.packages):
        tree.fault(f"{name} is there more than once")
    content = None
    if dot + kind == ".dist-info":
        content = _compare_record(tree, site, place)
    else:
        tree.fault(f"{folder} has no list of its files")
    url = _direct_url(tree, f"{place}/direct_url.json")
    direct = True if f"{place}/REQUESTED" in tree.files else None
    tree.add("pypi", name, version, licence=_licence(metadata), content_sha256=content, source=url, direct=direct)


def _compare_record(tree: InstalledTree, site: str, place: str) -> str | None:
    """Compare the files that RECORD lists; return the digest of the content, None if it is not as recorded."""
    data = tree.read(f"{place}/RECORD")
    if data is None:
        return None
    tree.known.add(f"{place}/RECORD")
    altered, content = False, []
    for listed, recorded in _rows(tree, place, data):
        path = posixpath.normpath(posixpath.join(site, listed))
        if path.startswith(("/", "../")):
            tree.fault(f"{place}/RECORD names {listed}, which is outside of the environment")
            continue
        algorithm, _, digest = recorded.partition("=")
        if algorithm not in _ALGORITHMS or "__pycache__" in path:
            continue  # without a digest a record proves nothing: the file stays unknown
        tree.known.add(path)
        actual = tree.digest(path, algorithm)
        if actual is None or base64.urlsafe_b64encode(actual).rstrip(b"=") != digest.encode("utf-8", "replace").rstrip(b"="):
            tree.altered.add(path)
            altered = True
        elif path.startswith(f"{site}/") and posixpath.basename(path) not in _OF_INSTALLER:
            content.append(f"{listed}\0{recorded}\n")
    whole = hashlib.sha256("".join(sorted(content)).encode("utf-8", "replace"))
    return None if altered or not content else whole.hexdigest()


def _rows(tree: InstalledTree, place: str, data: bytes) -> Iterator[tuple[str, str]]:
    try:
        for row in csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline="")):
            if row and row[0] and "\0" not in row[0]:
                yield row[0], row[1] if len(row) > 1 else ""
    except csv.Error as error:
        tree.fault(f"{place}/RECORD cannot be read: {error}")


def _licence(metadata: Message) -> str:
    """Return the expression (core metadata 2.4), else the declared text, else the classifiers."""
    declared = _field(metadata, "License-Expression") or _field(metadata, "License")
    if declared and declared != "UNKNOWN":
        return declared
    classifiers = (one_line(str(each)) for each in metadata.get_all("Classifier") or ())
    return one_line("; ".join(each.rpartition(" :: ")[2] for each in classifiers if each.startswith(_CLASSIFIER)))


def _field(metadata: Message, name: str) -> str:
    return one_line(str(metadata.get(name) or ""))


def _direct_url(tree: InstalledTree, path: str) -> str | None:
    """Return the host of a package that was not installed by name, or ``local folder``."""
    if path not in tree.files or (data := tree.read(path)) is None:
        return None
    try:
        found: dict[str, Any] = read_json(data, dict[str, Any])
    except UnreadableDocumentError:
        tree.fault(f"{path} is no JSON object")
        return None
    return host_of(found.get("url")) or ("local folder" if str(found.get("url")).startswith("file:") else None)


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _version(tree: InstalledTree, sites: list[str]) -> str:
    data = tree.read("pyvenv.cfg") if "pyvenv.cfg" in tree.files else b""
    for line in (data or b"").decode("utf-8", "replace").splitlines()[:100]:
        key, _, value = (part.strip() for part in line.partition("="))
        if key in {"version", "version_info"}:
            return one_line(value)
        if key == "include-system-site-packages" and value.lower() == "true":
            tree.fault("packages of the system are visible too, and not listed")
    return sites[0].split("/")[-2].lstrip("python") if sites else ""


def _is_own(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return path in _OWN or (folder == "bin" and name.startswith(_SCRIPTS))
