"""What a Python environment holds by its records, what no record lists, and what hostile metadata cannot do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.contracts.inventory import MOST_NAMED
from gatewright.environment_inventory.reading import read_inventory
from tests.environment_inventory.installed import SITE, install, make_prefix, python_tree


def test_the_packages_are_those_that_pip_finds() -> None:
    words = (sys.executable, "-I", "-m", "pip", "inspect", "--local")
    listed = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["installed"]
    found = read_inventory(Path(sys.prefix))
    named = {(each["metadata"]["name"], each["metadata"]["version"]) for each in listed}
    assert {(each.name, each.version) for each in found.packages} == named
    assert len(found.packages) == len(named)
    assert (found.ecosystem, found.altered_files) == ("python", 0)


def test_a_package_is_listed_with_what_it_declares(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    info = install(prefix, "Some.Thing", "2.0", "License-Expression: MIT OR Apache-2.0\n")
    (info / "REQUESTED").touch()
    found = python_tree(prefix)
    (package,) = found.packages
    assert (package.name, package.version, package.purl) == ("Some.Thing", "2.0", "pkg:pypi/some.thing@2.0")
    assert (package.licence, package.direct, package.source) == ("MIT OR Apache-2.0", True, None)
    assert (found.version, found.unknown) == ("3.11.7", (f"{SITE}/Some.Thing-2.0.dist-info/REQUESTED",))


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License: BSD\n", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("License: a\n  text\n  of lines\n", "a text of lines"),
        ("", None),
    ],
)
def test_a_licence_without_an_expression_is_kept_as_declared(tmp_path: Path, metadata: str, licence: str | None) -> None:
    prefix = make_prefix(tmp_path / "env")
    install(prefix, metadata=metadata)
    assert python_tree(prefix).packages[0].licence == licence


def test_the_same_content_has_the_same_digest_anywhere(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        prefix = make_prefix(tmp_path / name)
        (prefix / "bin" / "tool").write_text(f"#!{prefix}\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256((prefix / "bin" / "tool").read_bytes()).digest()).decode()
        install(prefix, rows=f"../../../bin/tool,sha256={digest},3\n")
        found = python_tree(prefix)
        assert (found.unknown, found.altered) == ((), ())
        digests.add(found.packages[0].content_sha256)
    assert len(digests) == 1
    assert None not in digests


@pytest.mark.parametrize(
    "place", [f"{SITE}/planted.py", f"{SITE}/planted.pth", f"{SITE}/needed/deep/er.so", "bin/tool", "sitecustomize.py"]
)
def test_a_planted_file_is_named(tmp_path: Path, place: str) -> None:
    prefix = make_prefix(tmp_path / "env")
    install(prefix)
    (prefix / place).parent.mkdir(parents=True, exist_ok=True)
    (prefix / place).write_bytes(b"import os\n")
    assert (python_tree(prefix).unknown_files, python_tree(prefix).unknown) == (1, (place,))


def test_a_planted_link_is_named_and_not_followed(tmp_path: Path) -> None:
    prefix, outside = make_prefix(tmp_path / "env"), tmp_path / "outside"
    install(make_prefix(outside), "secret")
    install(prefix, rows="linked/needed.py,sha256=0,1\n")
    (prefix / SITE / "linked").symlink_to(outside / SITE)
    found = python_tree(prefix)
    assert found.unknown == (f"{SITE}/linked",)
    assert found.altered == (f"{SITE}/linked/needed.py",)
    assert [each.name for each in found.packages] == ["needed"]


def test_altered_and_missing_files_are_named(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    install(prefix, files={"other.py": b"a = 1\n"})
    (prefix / SITE / "needed.py").write_bytes(b"value = 2\n")
    (prefix / SITE / "other.py").unlink()
    found = python_tree(prefix)
    assert (found.altered_files, found.altered) == (2, (f"{SITE}/needed.py", f"{SITE}/other.py"))
    assert found.packages[0].content_sha256 is None


def test_a_record_of_no_usable_package_vouches_for_nothing(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    (install(prefix, files={"planted.py": b""}) / "METADATA").unlink()
    assert f"{SITE}/planted.py" in python_tree(prefix).unknown


def test_a_record_without_a_digest_vouches_for_nothing(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    install(prefix, rows="planted.py,,\nother.py,md5=0,1\n")
    for name in ("planted.py", "other.py"):
        (prefix / SITE / name).touch()
    assert python_tree(prefix).unknown == (f"{SITE}/other.py", f"{SITE}/planted.py")


@pytest.mark.parametrize("path", ["../../../../outside.py", "/etc/passwd"])
def test_a_record_cannot_name_files_outside(tmp_path: Path, path: str) -> None:
    prefix = make_prefix(tmp_path / "env")
    (tmp_path / "outside.py").touch()
    install(prefix, rows=f"{path},sha256=0,1\n")
    found = python_tree(prefix)
    assert found.altered == ()
    assert "outside of the environment" in found.faults[0]


def _newline_in_name(prefix: Path) -> None:
    install(prefix, "bad\nname")


def _unusable_name(prefix: Path) -> None:
    info = install(prefix)
    (info / "METADATA").write_text("Name: a\u202eb\nVersion: 1\n")


def _other_name(prefix: Path) -> None:
    info = install(prefix)
    (info / "METADATA").write_text("Name: requests\nVersion: 1\n")


def _large_metadata(prefix: Path) -> None:
    install(prefix, metadata=f"Summary: {'x' * (17 << 20)}\n")


def _no_metadata(prefix: Path) -> None:
    (install(prefix) / "METADATA").unlink()


def _no_record(prefix: Path) -> None:
    (install(prefix) / "RECORD").unlink()


def _record_with_a_zero_byte(prefix: Path) -> None:
    install(prefix, rows='a\0b,sha256=0,1\n"' + "x" * 200_000 + "\n")


def _twice(prefix: Path) -> None:
    install(prefix)
    install(prefix, version="2.0")


def _bad_address(prefix: Path) -> None:
    (install(prefix) / "direct_url.json").write_text("[" * 100_000)


def _egg(prefix: Path) -> None:
    (prefix / SITE / "old.egg-info").mkdir()
    (prefix / SITE / "old.egg-info" / "PKG-INFO").write_text("Name: old\nVersion: 1\n")


def _pipe_as_metadata(prefix: Path) -> None:
    info = install(prefix)
    (info / "METADATA").unlink()
    os.mkfifo(info / "METADATA")


def _system_packages(prefix: Path) -> None:
    (prefix / "pyvenv.cfg").write_text("include-system-site-packages = true\n")


@pytest.mark.parametrize(
    "make",
    [
        *(_newline_in_name, _unusable_name, _other_name, _large_metadata, _no_metadata, _no_record, _record_with_a_zero_byte),
        *(_twice, _bad_address, _egg, _pipe_as_metadata, _system_packages),
    ],
)
def test_hostile_metadata_is_a_fault_in_a_valid_document(tmp_path: Path, make: Callable[[Path], object]) -> None:
    prefix = make_prefix(tmp_path / "env")
    make(prefix)
    found = python_tree(prefix)
    assert found.faults
    assert all(line.isprintable() for line in (*found.faults, *found.unknown, *found.altered))
    document = EnvironmentInventory(trees=(found,))
    assert codec.decode(codec.encode(document), EnvironmentInventory) == document


def test_long_lists_are_counted_and_cut(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    for number in range(MOST_NAMED + 5):
        (prefix / SITE / f"planted{number}\udc80.py").touch()
        (prefix / SITE / f"x{number}.dist-info").mkdir()
        (prefix / SITE / f"x{number}.dist-info" / "RECORD").touch()
    found = python_tree(prefix)
    assert (found.unknown_files, len(found.unknown)) == (2 * (MOST_NAMED + 5), MOST_NAMED)
    assert (len(found.faults), found.faults[-1]) == (MOST_NAMED, "and more")
    assert "\\udc80" in found.unknown[0]


def test_a_prefix_that_is_no_environment_of_its_own_is_judged_by_its_packages(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    (prefix / "pyvenv.cfg").unlink()
    (prefix / "lib" / "python3.11" / "os.py").touch()
    install(prefix)
    found = read_inventory(prefix)
    assert (found.ecosystem, found.version, found.unknown_files, len(found.packages)) == ("python", "3.11", 0, 1)
