"""Packages of Node, crates of Rust and modules of Go in the folders where their installers leave them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
from string import hexdigits
from typing import Any, Final

from gatewright.environment_inventory.trees import InstalledTree, host_of, one_line
from gatewright.foreign_documents import UnreadableDocumentError, read_toml, table_of

MODULES: Final = "node_modules"
CHECKSUMS: Final = ".cargo-checksum.json"
DOWNLOADS: Final = "cache/download/"
#: The list that npm leaves beside what it installed.
_HIDDEN_LOCK: Final = f"{MODULES}/.package-lock.json"
_REQUESTS: Final = ("dependencies", "devDependencies", "optionalDependencies")
#: Bytes of the digests of subresource integrity.
_SIZES: Final = {"sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}


def read_node(tree: InstalledTree) -> None:
    """Fill in ``tree`` with every package root below a ``node_modules``; their files have no record."""
    locked: dict[str, dict[str, Any]] = {}
    requested: set[str] = set()
    for path in sorted(path for path in tree.files if f"/{path}".endswith(f"/{_HIDDEN_LOCK}")):
        top = path.removesuffix(_HIDDEN_LOCK)
        locked |= {f"{top}{name}": table_of(facts) for name, facts in table_of(tree.read_object(path).get("packages")).items()}
        manifest = tree.read_object(f"{top}package.json") if f"{top}package.json" in tree.files else {}
        requested |= {f"{top}{MODULES}/{name}" for kind in _REQUESTS for name in table_of(manifest.get(kind))}
    roots = [path.removesuffix("/package.json") for path in sorted(tree.files) if _is_node_root(path)]
    for folder in roots:
        facts, manifest = locked.get(folder, {}), tree.read_object(f"{folder}/package.json")
        name, licence = manifest.get("name"), manifest.get("license")
        if name != facts.get("name", folder.rpartition(f"{MODULES}/")[2]):
            tree.fault(f"{folder} calls itself {name!r:.200}")
        if locked and folder not in locked:
            tree.unknown.add(folder)
        tree.add(
            "npm",
            name,
            manifest.get("version"),
            licence=one_line(str(table_of(licence).get("type", licence) or "")),
            archive=_integrity(facts.get("integrity")),
            source=host_of(facts.get("resolved")),
            direct=folder in requested if requested and folder in locked else None,
        )
    missing = (folder for folder in locked.keys() - {*roots} if not locked[folder].keys() & {"optional", "link"})
    tree.altered |= {f"{folder} (missing)" for folder in missing if MODULES in folder}


def _is_node_root(path: str) -> bool:
    _, modules, own = f"/{path}".rpartition(f"/{MODULES}/")
    return bool(modules) and own.endswith("/package.json") and own.count("/") == 1 + own.startswith("@") and own[0] != "."


def _integrity(text: object) -> str | None:
    """Return the digest of subresource integrity, the first of several, in hex."""
    algorithm, _, digest = str(text or "").partition(" ")[0].partition("-")
    found = _decoded(digest)
    return f"{algorithm}:{found.hex()}" if len(found) == _SIZES.get(algorithm) else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def read_rust(tree: InstalledTree) -> None:
    """Fill in ``tree`` with every vendored crate, whose files its checksums list."""
    crates = sorted(path.removesuffix(f"/{CHECKSUMS}") for path in tree.files if path.endswith(f"/{CHECKSUMS}"))
    for folder in crates:
        listing = tree.read_object(f"{folder}/{CHECKSUMS}")
        try:
            package = table_of(read_toml(tree.read(f"{folder}/Cargo.toml")).get("package"))
        except UnreadableDocumentError as error:
            tree.fault(f"{folder}/Cargo.toml: {error}")
            continue
        listed = {f"{folder}/{CHECKSUMS}"}
        for name, sha256 in table_of(listing.get("files")).items():
            path = posixpath.normpath(f"{folder}/{name}")
            if not path.startswith(f"{folder}/"):
                tree.fault(f"{folder}/{CHECKSUMS} names {name}, which is outside of the crate")
                continue
            listed.add(path)
            tree.altered |= {path} if tree.digest(path).hex() != sha256 else set()
        archive = str(listing.get("package"))
        licence = package.get("license") or (f"see {package['license-file']}" if "license-file" in package else "")
        found = f"sha256:{archive}" if len(archive) == 64 and not archive.strip(hexdigits) else None
        if tree.add("cargo", package.get("name"), package.get("version"), licence=one_line(str(licence)), archive=found):
            tree.known |= listed
    vendored = tuple({f"{posixpath.dirname(folder)}/".lstrip("/") for folder in crates})
    tree.unknown |= {path for path in tree.files.keys() | tree.others if path.startswith(vendored)} - tree.known


def read_go(tree: InstalledTree) -> None:
    """Fill in ``tree`` with every module that has a hash, and compare what was unpacked with it."""
    top = next((path.partition(DOWNLOADS)[0] for path in sorted(tree.files) if DOWNLOADS in path), "")
    unpacked: dict[str, list[str]] = {}
    for path in tree.files:
        module, at, below = path.removeprefix(top).partition("@")
        if at and not path.startswith(f"{top}cache/"):
            unpacked.setdefault(f"{module}@{below.partition('/')[0]}", []).append(path)
    recorded = set()
    for path in sorted(path for path in tree.files if path.startswith(f"{top}{DOWNLOADS}") and path.endswith(".ziphash")):
        escaped, _, name = path.removeprefix(f"{top}{DOWNLOADS}").removesuffix(".ziphash").partition("/@v/")
        whole, module, version = f"{escaped}@{name}", _unescape(escaped), _unescape(name)
        recorded.add(whole)
        found = _decoded(tree.read(path).decode("utf-8", "replace").strip().removeprefix("h1:"))
        # The hash of golang.org/x/mod/sumdb/dirhash over the files as they stand in the archive.
        names = sorted((f"{module}@{version}{each[len(top) + len(whole) :]}", each) for each in unpacked.get(whole, ()))
        lines = "".join(f"{tree.digest(each).hex()}  {named}\n" for named, each in names)
        if names and hashlib.sha256(lines.encode("utf-8", "surrogateescape")).digest() != found:
            tree.altered.add(whole)
        tree.add("golang", module, version, archive=f"h1:{found.hex()}" if len(found) == 32 else None)
    tree.unknown |= {path for whole in unpacked.keys() - recorded for path in unpacked[whole]} | tree.others


def _unescape(text: str) -> str:
    first, *others = text.split("!")
    return first + "".join(each[:1].upper() + each[1:] for each in others)
