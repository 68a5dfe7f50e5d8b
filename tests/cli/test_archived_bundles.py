"""A bundle that was downloaded as a .zip is verified and shown as its folder is."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from gatewright.evidence.store.archive import pack
from tests.cli.conftest import Command
from tests.cli.test_report import make_bundle


@pytest.mark.parametrize("top", ["", "run-of-mine"])
def test_archive_with_and_without_a_top_folder_is_verified(top: str, gatewright: Command, tmp_path: Path) -> None:
    pack(make_bundle(tmp_path), tmp_path / "my bundle.zip", top=top)
    assert gatewright("verify", "my bundle.zip").exit_code == 0
    assert gatewright("report", "my bundle.zip", "-o", "page.html").exit_code == 0
    assert list(tmp_path.rglob("gatewright-bundle-*")) == []


def test_altered_archive_is_found(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    patch = (bundle / "patch.diff").read_bytes()
    pack(bundle, tmp_path / "bundle.zip")
    packed = (tmp_path / "bundle.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "altered.zip", "w") as altered, zipfile.ZipFile(tmp_path / "bundle.zip") as whole:
        for name in whole.namelist():
            altered.writestr(name, whole.read(name) if name != "patch.diff" else patch + b"\n")
    assert packed.count(patch) >= 1
    found = gatewright("verify", "altered.zip", "--json")
    assert (found.exit_code, found.documents[0]["ok"]) == (1, False)


def test_archive_of_another_program_is_refused_with_what_to_do(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for file in bundle.rglob("*"):
            packed.write(file, file.relative_to(bundle))
    (tmp_path / "text.zip").write_text("no archive")
    for name in ("packed.zip", "text.zip"):
        refused = gatewright("verify", name, "--json")
        assert (refused.exit_code, refused.documents[0]["error"]["code"]) == (2, "not_a_bundle")
        assert "unpack it with another program" in refused.documents[0]["error"]["message"]


def test_console_s_archive_unpacks_into_one_folder(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    pack(bundle, tmp_path / "bundle.zip", top=bundle.name)
    subprocess.run(["python3", "-m", "zipfile", "-e", "bundle.zip", "here"], cwd=tmp_path, check=True)
    assert [path.name for path in (tmp_path / "here").iterdir()] == [bundle.name]
