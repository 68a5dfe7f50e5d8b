"""A release is complete, reproducible and installable; a dirty checkout is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (".ci/release/build.py", "dist", "--without-image")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of the last commit, with the pages and programs of this tree that the commit lacks."""
    place = tmp_path / "checkout"
    subprocess.run(("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(place)), check=True)
    return place


def build(place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, *BUILD), cwd=place, capture_output=True, text=True, check=False)


def test_a_dirty_checkout_is_refused(checkout: Path) -> None:
    (checkout / "left-over.txt").write_text("x")
    done = build(checkout)
    assert done.returncode == 1
    assert "left-over.txt" in done.stderr
    assert not (checkout / "dist").exists()


@pytest.mark.long
def test_a_release_has_every_file_with_its_digest_and_installs(checkout: Path, tmp_path: Path) -> None:
    made = ("make", "release", "WITHOUT=image", f"PYTHON={sys.executable}")
    done = subprocess.run(made, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = checkout / "dist"
    names = {path.name for path in folder.iterdir()}
    (bill,) = folder.glob("*.cdx.json")
    assert {each["name"] for each in json.loads(bill.read_text())["components"]} > {"msgspec", "nats-py", "pydantic"}
    (wheel,) = folder.glob("*.whl")
    assert {"SHA256SUMS", "provenance.intoto.json", wheel.name} < names
    lines = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} == names - {"SHA256SUMS"}
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for digest, name in lines)
    statement = json.loads((folder / "provenance.intoto.json").read_text())
    assert {each["name"] for each in statement["subject"]} == names - {"SHA256SUMS", "provenance.intoto.json"}
    target = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    subprocess.run(pip, check=True)
    assert (target / "gatewright" / "services" / "gatekeeper" / "service.py").is_file()
    assert (target / "gatewright" / "_policies" / "roles.json").is_file()
