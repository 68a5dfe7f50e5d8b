"""Artifacts of a Maven repository: each file is what the egress log, or the registry's checksum beside it, records."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gatewright.egress.record import parse_egress_log
from gatewright.environment_inventory.trees import InstalledTree, one_line
from gatewright.errors import VerificationError
from gatewright.foreign_documents import UnreadableDocumentError, read_xml
from gatewright.patterns import TextPattern
from gatewright.sandbox.environments import EGRESS_LOG

REPOSITORY: Final = "repository/"
_CHECKSUMS: Final = (".sha512", ".sha256", ".sha1", ".md5")
#: ``group/name/version/name-version...``, the first folder being that of the repository.
_FILE: Final = TextPattern(r"(?P<group>[^\s/]+(?:/[^\s/]+)*)/(?P<name>[^\s/]+)/(?P<version>[^\s/]+)/(?P<file>[^\s/]+)")
#: Maven adds the name of a mirror to a list of versions.
_LIST: Final = TextPattern(r"(?P<folder>.*/)maven-metadata-[A-Za-z0-9_.-]+\.xml")
_MOST_PARENTS: Final = 10
#: Folders of a registry's address that do not belong to its repository.
_DEEPEST: Final = 10

#: Digest and host of what the installer received, by the end of its path in a registry.
_Logged = Mapping[str, tuple[str, str]]


def is_java(tree: InstalledTree) -> bool:
    """Return whether a tree has the POM of an artifact in a Maven repository."""
    return any(path.endswith(".pom") and _artifact(path.removeprefix(REPOSITORY)) for path in tree.files)


def read_java(tree: InstalledTree) -> None:
    """Fill in ``tree`` with each artifact that has a POM or an archive; other files of the environment are not read."""
    top = REPOSITORY if any(path.startswith(REPOSITORY) for path in tree.files) else ""
    logged = _read_log(tree, top)
    archives: dict[tuple[str, str, str], dict[str, str]] = {}
    for path in sorted(each for each in tree.files if each.startswith(top) and not each.endswith(_CHECKSUMS)):
        recorded = _recorded(tree, logged, path.removeprefix(top), path)
        if not recorded:
            tree.unknown.add(path)
            continue
        algorithm, digest = recorded.split(":")
        tree.known.add(path)
        tree.altered |= {path} if tree.digest(path, algorithm).hex() != digest else set()
        if artifact := _artifact(path.removeprefix(top)):
            archives.setdefault(artifact, {})[path] = recorded
    for (group, name, version), files in archives.items():
        stem = f"{top}{group.replace('.', '/')}/{name}/{version}/{name}-{version}"
        main = next((each for each in (f"{stem}.jar", *files) if each in files), "")
        facts = {"archive": files[main], "source": logged.get(main.removeprefix(top), ("", ""))[1]}
        tree.add("maven", f"{group}:{name}", version, licence=_licence(tree, f"{stem}.pom", top), **facts)
    sums = (each for each in tree.files if each.startswith(top) and each.endswith(_CHECKSUMS))
    tree.unknown |= {each for each in sums if posixpath.splitext(each)[0] not in tree.known}
    tree.unknown |= {each for each in tree.others if each.startswith(top)}


def _read_log(tree: InstalledTree, top: str) -> _Logged:
    """Return what the log of a prepared environment records; a log that was changed is no record, but a fault."""
    if EGRESS_LOG not in tree.files or not top:
        return {}
    try:
        records = parse_egress_log(tree.read(EGRESS_LOG))
    except VerificationError:
        return {}  # the reader of the log names the fault
    found: dict[str, tuple[str, str]] = {}
    read = [(each.path.split("/"), each) for each in records if each.status == 200 and not each.reason]
    for start in range(1, _DEEPEST):  # the first folders of a path may be the registry's, or a group's
        for parts, each in read:
            if start < len(parts):
                found.setdefault("/".join(parts[start:]), (each.sha256, one_line(each.host)))
    return found


def _recorded(tree: InstalledTree, logged: _Logged, place: str, path: str) -> str:
    """Return the digest that a file must have, with its algorithm; empty if nothing records it."""
    if EGRESS_LOG in tree.files and path.startswith(REPOSITORY):
        listed = _LIST.fullmatch(place)
        digest, _ = logged.get(f"{listed['folder']}maven-metadata.xml" if listed else place, ("", ""))
        return f"sha256:{digest}" if digest else ""
    for end in ("sha512", "sha256", "sha1") if any(f"{path}{end}" in tree.files for end in _CHECKSUMS) else ():
        if f"{path}.{end}" in tree.files:
            words = tree.read(f"{path}.{end}").decode("utf-8", "replace").split()
            return f"{end}:{words[0].lower()}" if words else ""
    return ""


def _artifact(place: str) -> tuple[str, str, str] | None:
    """Return group, name and version of a file in a repository; None for one that belongs to no artifact."""
    parts = _FILE.fullmatch(place)
    if parts is None or not parts["file"].startswith(f"{parts['name']}-{parts['version']}"):
        return None
    return parts["group"].replace("/", "."), parts["name"], parts["version"]


def _licence(tree: InstalledTree, pom: str, top: str) -> str:
    """Return the licences that a POM, or one that it inherits from, declares; several are a choice."""
    for _ in range(_MOST_PARENTS):
        if pom not in tree.files:
            return ""
        try:
            root = read_xml(tree.read(pom))
        except UnreadableDocumentError:
            return ""
        names = [(each.text or "").strip() for each in root.iterfind("{*}licenses/{*}license/{*}name")]
        if any(names):
            return one_line(" OR ".join(filter(None, names)))
        group, name, version = _parent(root)
        pom = f"{top}{group.replace('.', '/')}/{name}/{version}/{name}-{version}.pom"
    return ""


def _parent(root: Any) -> Iterator[str]:
    return ((root.findtext(f"{{*}}parent/{{*}}{key}") or "").strip() for key in ("groupId", "artifactId", "version"))
