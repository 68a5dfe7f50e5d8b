"""Facts of this host, for reports: what pins a prefix changes when the prefix does."""

from __future__ import annotations

import hashlib
import socket
import sys
from pathlib import Path

import pytest

from gatewright import host_facts
from gatewright.contracts import codec


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A virtual environment as far as anybody looks at it."""
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (packages / "ruff-0.8.0.dist-info").mkdir(parents=True)
    (packages / "a_module.py").touch()
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").write_bytes(b"an interpreter")
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return tmp_path / "env"


def test_a_prefix_is_pinned_by_its_interpreter_and_its_packages(prefix: Path) -> None:
    found = host_facts.interpreter(prefix)
    assert found is not None
    assert (found.prefix, found.version) == (str(prefix), "3.11.7")
    assert found.sha256 == hashlib.sha256(b"an interpreter").hexdigest()
    assert found.packages_sha256 == hashlib.sha256(b"ruff-0.8.0\n").hexdigest()


def test_another_package_or_interpreter_is_another_prefix(prefix: Path) -> None:
    before = host_facts.interpreter(prefix)
    (prefix / "lib" / "python3.11" / "site-packages" / "evil-1.0.dist-info").mkdir()
    (prefix / "bin" / "python").write_bytes(b"another interpreter")
    after = host_facts.interpreter(prefix)
    assert before is not None
    assert after is not None
    assert before.packages_sha256 != after.packages_sha256
    assert before.sha256 != after.sha256


def test_an_interpreter_that_is_a_link_is_the_one_that_runs() -> None:
    found = host_facts.interpreter(Path(sys.prefix))
    assert found is not None
    assert found.sha256 == hashlib.sha256(Path(sys.executable).resolve().read_bytes()).hexdigest()


def test_a_prefix_without_an_interpreter_is_left_out(tmp_path: Path) -> None:
    assert host_facts.interpreter(tmp_path) is None


def test_surroundings_name_programs_and_not_the_host() -> None:
    surroundings = host_facts.surroundings(sandbox={"sandbox": "bubblewrap"}, versions={"secret_scanner": "patterns"})
    assert {"gatewright", "python", "git", "secret_scanner"} <= set(surroundings.versions)
    assert socket.gethostname().encode() not in codec.encode(surroundings) or len(socket.gethostname()) < 4
    assert surroundings.sandbox == {"sandbox": "bubblewrap"}
