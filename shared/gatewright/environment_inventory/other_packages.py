"""Packages of Node, crates of Rust and modules of Go in the folders where their installers leave them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
from collections.abc import Iterator
from typing import Any, Final

from gatewright.environment_inventory.trees import InstalledTree, host_of, one_line
from gatewright.foreign_documents import UnreadableDocumentError, read_json, read_toml

MODULES: Final = "node_modules"
#: The list that npm leaves beside what it installed.
_HIDDEN_LOCK: Final = ".package-lock.json"
CHECKSUMS: Final = ".cargo-checksum.json"
DOWNLOADS: Final = "cache/download/"
#: Bytes of the digests of subresource integrity.
_SIZES: Final = {"sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
_REQUESTS: Final = ("dependencies", "devDependencies", "optionalDependencies")
Facts = dict[str, Any]


def read_node(tree: InstalledTree) -> str:
    """Fill in ``tree`` with every package root below a ``node_modules``; its files have no record. The version is unknown."""
    locked: dict[str, Facts] = {}
    requested: set[str] = set()
    for path in sorted(tree.files):
        if posixpath.basename(path) == _HIDDEN_LOCK and posixpath.basename(posixpath.dirname(path)) == MODULES:
            top = posixpath.dirname(posixpath.dirname(path))
            for name, facts in _table(_object(tree, path).get("packages")).items():
                locked[posixpath.join(top, name)] = _table(facts)
            manifest = _object(tree, own) if (own := posixpath.join(top, "package.json")) in tree.files else {}
            requested |= {posixpath.join(top, MODULES, name) for kind in _REQUESTS for name in _table(manifest.get(kind))}
    for folder in _node_roots(tree):
        facts, manifest = locked.get(folder, {}), _object(tree, f"{folder}/package.json")
        own = folder.rpartition(f"{MODULES}/")[2]
        if manifest.get("name") != facts.get("name", own):
            tree.fault(f"{folder} calls itself {manifest.get('name')!r:.200}")
        if locked and folder not in locked:
            tree.unknown.add(folder)
        declared = manifest.get("license")
        licence = _table(declared).get("type", declared) if not isinstance(declared, list) else None
        tree.add(
            "npm",
            manifest.get("name"),
            manifest.get("version"),
            licence=one_line(licence) if isinstance(licence, str) else None,
            archive=_integrity(facts.get("integrity")),
            source=host_of(facts.get("resolved")),
            direct=folder in requested if requested and folder in locked else None,
        )
    for folder in sorted(locked.keys() - {posixpath.dirname(path) for path in tree.files}):
        if not locked[folder].get("optional") and not locked[folder].get("link"):
            tree.altered.add(f"{folder} (missing)")
    return ""


def _node_roots(tree: InstalledTree) -> Iterator[str]:
    for path in sorted(tree.files):
        folder, _, name = path.rpartition("/")
        parts = folder.split("/")
        own = parts[-2:] if len(parts) > 1 and parts[-2].startswith("@") else parts[-1:]
        above = parts[: -len(own)]
        if name == "package.json" and above and above[-1] == MODULES and not parts[-1].startswith("."):
            yield folder


def _integrity(text: object) -> str | None:
    """Return the digest of subresource integrity, the first of several, in hex."""
    algorithm, _, digest = (text.split()[0] if isinstance(text, str) and text.split() else "").partition("-")
    found = _decoded(digest)
    return f"{algorithm}:{found.hex()}" if len(found) == _SIZES.get(algorithm) else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def read_rust(tree: InstalledTree) -> str:
    """Fill in ``tree`` with every vendored crate, whose files its checksums list. The version is unknown."""
    crates = {path.rpartition("/")[0] for path in tree.files if posixpath.basename(path) == CHECKSUMS}
    for folder in sorted(crates):
        listing = _object(tree, f"{folder}/{CHECKSUMS}")
        try:
            package = _table(read_toml(tree.read(f"{folder}/Cargo.toml") or b"").get("package"))
        except UnreadableDocumentError as error:
            tree.fault(f"{folder}/Cargo.toml: {error}")
            continue
        tree.known.add(f"{folder}/{CHECKSUMS}")
        for name, sha256 in _table(listing.get("files")).items():
            path = posixpath.normpath(f"{folder}/{name}")
            if not path.startswith(f"{folder}/"):
                tree.fault(f"{folder}/{CHECKSUMS} names {name}, which is outside of the crate")
                continue
            tree.known.add(path)
            actual = tree.digest(path)
            if actual is None or actual.hex() != sha256:
                tree.altered.add(path)
        archive = listing.get("package")
        licence = package.get("license") or (f"see {package['license-file']}" if "license-file" in package else None)
        tree.add(
            "cargo",
            package.get("name"),
            package.get("version"),
            licence=one_line(str(licence)) if licence else None,
            archive=f"sha256:{archive}" if isinstance(archive, str) and _is_sha256(archive) else None,
        )
    vendored = tuple({f"{posixpath.dirname(folder)}/".lstrip("/") for folder in crates})
    tree.unknown |= {path for path in tree.files.keys() | tree.others if path.startswith(vendored)} - tree.known
    return ""


def read_go(tree: InstalledTree) -> str:
    """Fill in ``tree`` with every module that has an archive, and compare what was unpacked. The version is unknown."""
    unpacked: dict[str, list[str]] = {}
    top = next((path.partition(DOWNLOADS)[0] for path in sorted(tree.files) if DOWNLOADS in path), "")
    for path in tree.files:
        module, at, rest = path.removeprefix(top).partition("@")
        if at and not path.startswith(f"{top}cache/"):
            unpacked.setdefault(f"{module}@{rest.partition('/')[0]}", []).append(path)
    recorded = set()
    for path in sorted(tree.files):
        escaped, at, name = path.removeprefix(f"{top}{DOWNLOADS}").partition("/@v/")
        if not at or not name.endswith(".ziphash") or not path.startswith(f"{top}{DOWNLOADS}"):
            continue
        version = _unescape(name.removesuffix(".ziphash"))
        whole = f"{escaped}@{name.removesuffix('.ziphash')}"
        recorded.add(whole)
        digest = (tree.read(path) or b"").decode("utf-8", "replace").strip()
        if whole in unpacked and digest != _module_hash(tree, top, unpacked[whole], whole, f"{_unescape(escaped)}@{version}"):
            tree.altered.add(whole)
        found = _decoded(digest.removeprefix("h1:")).hex()
        tree.add("golang", _unescape(escaped), version, archive=f"h1:{found}" if _is_sha256(found) else None)
    for whole in unpacked.keys() - recorded:
        tree.unknown |= {*unpacked[whole]}
    tree.unknown |= {path for path in tree.others if path.startswith(top)}
    return ""


def _module_hash(tree: InstalledTree, top: str, paths: list[str], folder: str, module: str) -> str:
    """Return the hash ``h1`` of an unpacked module (golang.org/x/mod/sumdb/dirhash)."""
    names = sorted((f"{module}{path[len(top) + len(folder) :]}", path) for path in paths)
    lines = "".join(f"{(tree.digest(path) or b'').hex()}  {name}\n" for name, path in names)
    return f"h1:{base64.b64encode(hashlib.sha256(lines.encode('utf-8', 'surrogateescape')).digest()).decode()}"


def _unescape(text: str) -> str:
    first, *others = text.split("!")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _object(tree: InstalledTree, path: str) -> Facts:
    data = tree.read(path)
    try:
        return {} if data is None else _table(read_json(data))
    except UnreadableDocumentError as error:
        tree.fault(f"{path}: {error}")
        return {}


def _table(value: object) -> Facts:
    return value if isinstance(value, dict) else {}


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and all(each in "0123456789abcdef" for each in text)
