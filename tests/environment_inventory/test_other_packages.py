"""Packages of Node as npm lists them, vendored crates, and modules of Go with their hashes."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gatewright.environment_inventory.reading import read_inventory
from tests.ecosystems.test_node import needs_node

_INTEGRITY = "sha512-" + base64.b64encode(b"7" * 64).decode()
LOCK = {
    "lockfileVersion": 3,
    "packages": {
        "node_modules/a": {"version": "1.0.0", "integrity": _INTEGRITY, "resolved": "https://u:pw@files.example.org/a.tgz"},
        "node_modules/@s/b": {"version": "2.0.0"},
        "node_modules/a/node_modules/c": {"version": "3.0.0"},
        "node_modules/other": {"name": "c", "version": "3.1.0"},
        "node_modules/fsevents": {"version": "1.0.0", "optional": True},
    },
}


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def node_project(folder: Path) -> Path:
    manifest = {"name": "top", "version": "1.0.0", "dependencies": {"a": "1", "@s/b": "2", "other": "npm:c@3.1.0"}}
    return write(folder, {
        "package.json": manifest,
        "node_modules/.package-lock.json": LOCK,
        "node_modules/a/package.json": {"name": "a", "version": "1.0.0", "license": "MIT", "dependencies": {"c": "3"}},
        "node_modules/@s/b/package.json": {"name": "@s/b", "version": "2.0.0", "license": {"type": "ISC"}},
        "node_modules/a/node_modules/c/package.json": {"name": "c", "version": "3.0.0"},
        "node_modules/other/package.json": {"name": "c", "version": "3.1.0"},
        "node_modules/a/lib/package.json": {"type": "module"},
        "node_modules/.bin/a": "",
    })  # fmt: skip


def _listed(tree: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, facts in tree.get("dependencies", {}).items():
        yield name, facts["version"]
        yield from _listed(facts)


@needs_node
def test_the_packages_are_those_that_npm_lists(tmp_path: Path) -> None:
    project = node_project(tmp_path / "project")
    words = ("npm", "ls", "--all", "--json", "--offline")
    listed = json.loads(subprocess.run(words, cwd=project, check=False, capture_output=True).stdout)
    found = read_inventory(project)
    assert {(each.name, each.version) for each in found.packages} == {
        ("c" if name == "other" else name, version) for name, version in _listed(listed)
    }
    assert (found.ecosystem, found.unknown, found.altered, found.faults) == ("node", (), (), ())


def test_a_package_has_what_the_lock_knows_and_no_password(tmp_path: Path) -> None:
    packages = {each.purl: each for each in read_inventory(node_project(tmp_path / "project")).packages}
    found = packages["pkg:npm/a@1.0.0"]
    assert (found.licence, found.source, found.direct) == ("MIT", "files.example.org", True)
    assert found.archive == f"sha512:{(b'7' * 64).hex()}"
    assert (packages["pkg:npm/%40s/b@2.0.0"].licence, packages["pkg:npm/c@3.0.0"].direct) == ("ISC", False)


def test_a_folder_of_packages_alone_is_read(tmp_path: Path) -> None:
    found = read_inventory(node_project(tmp_path / "project") / "node_modules")
    assert (found.ecosystem, len(found.packages), found.unknown) == ("node", 4, ())


def test_a_planted_package_and_a_missing_one_are_named(tmp_path: Path) -> None:
    project = node_project(tmp_path / "project")
    write(project, {"node_modules/planted/package.json": {"name": "planted", "version": "1.0.0"}})
    (project / "node_modules/other/package.json").unlink()
    found = read_inventory(project)
    assert (found.unknown, found.altered) == (("node_modules/planted",), ("node_modules/other (missing)",))


@pytest.mark.parametrize(
    "manifest",
    [
        *("[" * 100_000, "[]", "{", '{"name": 3, "version": {}}', '{"name": "a\\nb", "version": "1"}'),
        *('{"name": "lodash", "version": "1.0.0"}', '{"name": "\\ud800", "version": "1"}', f'{{"name": "{"a" * 10_000}"}}'),
    ],
)
def test_a_hostile_manifest_is_a_fault(tmp_path: Path, manifest: str) -> None:
    project = node_project(tmp_path / "project")
    (project / "node_modules/other/package.json").write_text(manifest)
    found = read_inventory(project)
    assert found.faults
    assert len(found.packages) in {3, 4}


@pytest.mark.parametrize("integrity", ["sha512-AAAA", "sha512-?", "md5-AAAA", "-", "", 3, None])
def test_a_digest_of_another_form_is_not_listed(tmp_path: Path, integrity: object) -> None:
    project = node_project(tmp_path / "project")
    facts = {"version": "1.0.0", "integrity": integrity, "resolved": "http://[::1"}
    write(project, {"node_modules/.package-lock.json": {"packages": {"node_modules/a": facts}}})
    (found,) = [each for each in read_inventory(project).packages if each.name == "a"]
    assert (found.archive, found.source) == (None, None)


@pytest.mark.parametrize("lock", ["{", "[]", '{"packages": []}', '{"packages": {"node_modules/a": 3, "": null}}'])
def test_a_hostile_lock_never_ends_the_reading(tmp_path: Path, lock: str) -> None:
    project = node_project(tmp_path / "project")
    (project / "node_modules/.package-lock.json").write_text(lock)
    assert len(read_inventory(project).packages) == 4


def crate(folder: Path, name: str = "needed", **listed: str) -> Path:
    files = {"Cargo.toml": f'[package]\nname = "{name}"\nversion = "1.0.0"\nlicense = "MIT"\n', "src/lib.rs": "pub fn a() {}\n"}
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()} | listed
    return write(folder / f"vendor/{name}-1.0.0", files | {".cargo-checksum.json": {"files": digests, "package": "a" * 64}})


def test_a_vendored_crate_is_compared_with_its_checksums(tmp_path: Path) -> None:
    place = crate(tmp_path)
    found = read_inventory(tmp_path)
    assert [(each.purl, each.licence, each.archive) for each in found.packages] == [
        ("pkg:cargo/needed@1.0.0", "MIT", f"sha256:{'a' * 64}")
    ]
    assert (found.unknown, found.altered) == ((), ())
    (place / "src/lib.rs").write_text("pub fn b() {}\n")
    (place / "build.rs").touch()
    write(tmp_path, {"vendor/planted/lib.rs": ""})
    found = read_inventory(tmp_path)
    assert found.altered == ("vendor/needed-1.0.0/src/lib.rs",)
    assert found.unknown == ("vendor/needed-1.0.0/build.rs", "vendor/planted/lib.rs")


def test_checksums_cannot_name_files_outside(tmp_path: Path) -> None:
    crate(tmp_path, **{"../../outside": "0" * 64})
    (tmp_path / "outside").touch()
    found = read_inventory(tmp_path)
    assert "outside of the crate" in found.faults[0]
    assert found.altered == ()


@pytest.mark.parametrize("manifest", ["[", "package = 3\n", "[package]\nname = 3\n", f"a = 0x{'f' * 5000}\n"])
def test_a_hostile_crate_is_a_fault(tmp_path: Path, manifest: str) -> None:
    (crate(tmp_path) / "Cargo.toml").write_text(manifest)
    assert read_inventory(tmp_path).faults


def module(folder: Path) -> Path:
    """A module in a cache, with the hash that its definition gives: sha256 over the output of sha256sum."""
    write(
        folder,
        {"x/example.org/!up/a@v1.0.0/go.mod": "module example.org/Up/a\n", "x/example.org/!up/a@v1.0.0/d/a.go": "package d\n"},
    )
    names = "example.org/Up/a@v1.0.0/d/a.go", "example.org/Up/a@v1.0.0/go.mod"
    write(folder / "plain", {names[0]: "package d\n", names[1]: "module example.org/Up/a\n"})
    summed = subprocess.run(("sha256sum", *names), cwd=folder / "plain", check=True, capture_output=True).stdout
    digest = base64.b64encode(hashlib.sha256(summed).digest()).decode()
    return write(folder / "x", {"cache/download/example.org/!up/a/@v/v1.0.0.ziphash": f"h1:{digest}"})


def test_an_unpacked_module_is_compared_with_its_hash(tmp_path: Path) -> None:
    cache = module(tmp_path)
    found = read_inventory(cache)
    (package,) = found.packages
    assert (found.ecosystem, package.name, package.version) == ("go", "example.org/Up/a", "v1.0.0")
    assert (found.unknown, found.altered, (package.archive or "")[:3]) == ((), (), "h1:")
    write(cache, {"example.org/!up/a@v1.0.0/planted.go": "", "example.org/other@v2.0.0/a.go": ""})
    found = read_inventory(cache)
    assert (found.altered, found.unknown) == (("example.org/!up/a@v1.0.0",), ("example.org/other@v2.0.0/a.go",))


def test_an_empty_folder_states_that_nothing_was_measured(tmp_path: Path) -> None:
    found = read_inventory(tmp_path)
    assert (found.ecosystem, found.packages, found.faults) == ("other", (), ("no packages of a known ecosystem",))
