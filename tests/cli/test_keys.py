"""``gatewright keys``: what it prints, and that verifying takes the keys of the ring or those that are given."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from tests.command_line import invoke_in
from tests.evidence.recorded_runs import make_success


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "GATEWRIGHT_HOME": str(home)}
    return invoke_in(home.parent, environment, words)


def told(home: Path, *words: str) -> Any:
    finished = command(home, *words, "--json")
    assert finished.returncode == 0, finished.stdout
    return json.loads(finished.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def seal(home: Path, folder: Path) -> Path:
    run = make_success()
    signer = Signer(keys.load(keys.home_key(home)))
    return Path(asyncio.run(BundleWriter(folder).seal(run.run, run.transitions, run.store, signer)).location)


def test_a_key_is_made_once_and_its_public_half_is_given_away(home: Path, tmp_path: Path) -> None:
    assert command(home, "keys", "export").returncode == 2
    made = told(home, "keys", "init")
    assert made["created"]
    assert told(home, "keys", "init") == {**made, "created": False}
    pem = command(home, "keys", "export", "-o", str(tmp_path / "given.pub"))
    assert pem.returncode == 0
    assert keys.load_public(tmp_path / "given.pub").key_id == made["key_id"]
    assert command(home, "keys", "export").stdout.encode() == (tmp_path / "given.pub").read_bytes()


@pytest.mark.long
def test_rotation_changes_who_signs_and_not_what_verifies(home: Path, tmp_path: Path) -> None:
    first = told(home, "keys", "init")["key_id"]
    before = seal(home, tmp_path / "before")
    rotated = told(home, "keys", "rotate")
    assert rotated["retired"] == first
    after = seal(home, tmp_path / "after")
    listed = told(home, "keys", "list")
    assert [(key["key_id"], key["state"]) for key in listed] == [(rotated["key_id"], "signing"), (first, "retired")]
    assert [told(home, "verify", str(bundle))["signer"] for bundle in (before, after)] == [first, rotated["key_id"]]


@pytest.mark.long
def test_given_keys_are_the_only_ones_and_there_may_be_several(home: Path, tmp_path: Path) -> None:
    told(home, "keys", "init")
    bundle = seal(home, tmp_path / "runs")
    own = str(keys.public_path(keys.home_key(home)))
    keys.create(tmp_path / "stranger.pem")
    stranger = str(tmp_path / "stranger.pem.pub")
    assert command(home, "verify", str(bundle), "--key", stranger).returncode == 1
    assert command(home, "verify", str(bundle), "--key", stranger, "--key", own).returncode == 0


@pytest.mark.long
def test_a_partners_bundle_verifies_once_its_key_is_trusted(home: Path, tmp_path: Path) -> None:
    partner = tmp_path / "partner"
    for each in (home, partner):
        told(each, "keys", "init")
    bundle = seal(partner, tmp_path / "runs")
    assert command(home, "verify", str(bundle)).returncode == 1
    command(partner, "keys", "export", "-o", str(home / "keys" / "trusted" / "partner.pub"))
    assert command(home, "verify", str(bundle)).returncode == 0
    assert sorted(key["state"] for key in told(home, "keys", "list")) == ["signing", "trusted"]


def test_an_unverified_bundle_is_attached_to_nothing(home: Path, tmp_path: Path) -> None:
    told(home, "keys", "init")
    bundle = seal(home, tmp_path / "runs")
    (bundle / "patch.diff").chmod(0o644)
    (bundle / "patch.diff").write_bytes(b"forged\n")
    finished = command(home, "attach", str(bundle), "--json")
    assert finished.returncode == 1
    assert json.loads(finished.stdout)["error"]["code"] == "bundle_not_verified"
