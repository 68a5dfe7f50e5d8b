"""Whose key a bundle is verified with: this host's own, a pinned or a retired one, and never one that a repository brings."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.cli.home import make_home
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import home_key
from gatewright.evidence.writer import BundleWriter
from tests.cli.conftest import Command, MakeRepository
from tests.evidence.recorded_runs import START, make_success

RUN = "run-a31d0eeaa8061bb92728"


def seal(key: keys.PrivateKey, root: Path) -> Path:
    run = make_success()
    return Path(asyncio.run(BundleWriter(root).seal(run.run, run.transitions, run.store, Signer(key))).location)


def verified(gatewright: Command, *words: str | Path) -> Any:
    (document,) = gatewright("verify", *words, "--json").documents
    return document


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_home(tmp_path / ".gatewright")
    return tmp_path / ".gatewright"


def test_key_that_a_clone_tracks_in_a_subfolder_is_not_trusted(
    make_repository: MakeRepository, gatewright: Command, tmp_path: Path
) -> None:
    theirs = make_repository("theirs")
    planted = theirs / "tools" / ".gatewright"
    key = keyring.make(planted, home_key(planted))
    seal(key, planted / "runs")
    subprocess.run(("git", "add", "-f", "."), cwd=theirs, check=True)
    subprocess.run(("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "x"), cwd=theirs, check=True)
    subprocess.run(("git", "clone", "-q", str(theirs), str(tmp_path / "clone")), check=True)
    bundle = tmp_path / "clone" / "tools" / ".gatewright" / "runs" / RUN
    os.chdir(tmp_path / "clone" / "tools")
    document = verified(gatewright, bundle)
    assert document["error"]["code"] == "key_unreadable"
    assert str(tmp_path / "clone" / ".git" / "gatewright") in document["error"]["message"]


def test_committed_private_key_signs_nothing(make_repository: MakeRepository, gatewright: Command) -> None:
    repository = make_repository("r")
    planted = repository / "sub" / ".gatewright"
    theirs = keyring.make(planted, home_key(planted)).public
    subprocess.run(("git", "add", "-f", "."), cwd=repository, check=True)
    os.chdir(repository / "sub")
    made = gatewright("init", "--json").documents[0]
    assert made["created"]
    assert made["key_id"] != theirs.key_id


def test_verifying_with_a_key_file_needs_no_home(make_repository: MakeRepository, gatewright: Command, tmp_path: Path) -> None:
    key = keys.create(tmp_path / "partner.pem")
    bundle = seal(key, tmp_path)
    repository = make_repository("r")
    make_home(repository / ".gatewright")
    subprocess.run(("git", "add", "-f", ".gatewright"), cwd=repository, check=True)
    os.chdir(repository)
    assert verified(gatewright, bundle)["error"]["code"] == "home_tracked"
    assert verified(gatewright, bundle, "--key", tmp_path / "partner.pem.pub")["ok"]


def test_verdict_names_file_and_fingerprint_of_the_hosts_own_key(gatewright: Command, home: Path, tmp_path: Path) -> None:
    bundle = seal(keyring.make(home, home_key(home)), tmp_path)
    key = verified(gatewright, bundle)["key"]
    assert (key["state"], key["retired"]) == ("signing", "")
    assert keys.load_public(Path(key["file"])).key_id == key["fingerprint"]
    said = gatewright("verify", bundle).out
    assert f"signed by {key['fingerprint']} (this host's own; {key['file']})" in said


def test_verdict_shows_that_a_pinned_or_given_key_is_foreign(gatewright: Command, home: Path, tmp_path: Path) -> None:
    partner = keys.create(tmp_path / "partner.pem")
    bundle = seal(partner, tmp_path)
    keyring.make(home, home_key(home))
    pinned = keyring.trusted_folder(home) / "partner.pub"
    pinned.write_bytes(partner.public.pem())
    key = verified(gatewright, bundle)["key"]
    assert (key["state"], key["file"]) == ("trusted", str(pinned))
    given = verified(gatewright, bundle, "--key", tmp_path / "partner.pem.pub")["key"]
    assert (given["state"], given["file"]) == ("given", str(tmp_path / "partner.pem.pub"))


def test_public_key_without_its_private_half_is_not_called_the_hosts_own(
    gatewright: Command, home: Path, tmp_path: Path
) -> None:
    bundle = seal(keyring.make(home, home_key(home)), tmp_path)
    home_key(home).unlink()
    assert verified(gatewright, bundle)["key"]["state"] == "trusted"


def test_fingerprint_picks_one_of_the_trusted_keys(gatewright: Command, home: Path, tmp_path: Path) -> None:
    own = keyring.make(home, home_key(home))
    partner = keys.create(tmp_path / "partner.pem")
    (keyring.trusted_folder(home) / "partner.pub").write_bytes(partner.public.pem())
    bundle = seal(partner, tmp_path)
    assert verified(gatewright, bundle, "--key", partner.public.key_id)["ok"]
    assert verified(gatewright, bundle, "--key", partner.public.key_id[:16])["ok"]
    refused = verified(gatewright, bundle, "--key", own.public.key_id)
    assert [finding["code"] for finding in refused["findings"]] == ["untrusted_key", "untrusted_key"]
    assert verified(gatewright, bundle, "--key", "0" * 64)["error"]["code"] == "key_unknown"


@pytest.mark.parametrize(("hours", "accepted"), [(-1, False), (1, True)])
def test_run_that_ended_after_its_key_was_retired_does_not_verify(
    gatewright: Command, home: Path, tmp_path: Path, hours: int, accepted: bool
) -> None:
    old = keyring.make(home, home_key(home))
    keyring.rotate(home, home_key(home), START + timedelta(hours=hours))
    document = verified(gatewright, seal(old, tmp_path))
    assert document["ok"] is accepted
    assert document["key"]["state"] == "retired"
    late = {("signed_after_retirement", "manifest.dsse.json"), ("signed_after_retirement", "checks.dsse.json")}
    assert {(finding["code"], finding["path"]) for finding in document["findings"]} == (set() if accepted else late)


def test_note_of_retirement_that_is_no_time_is_not_passed_over(gatewright: Command, home: Path, tmp_path: Path) -> None:
    old = keyring.make(home, home_key(home))
    keyring.rotate(home, home_key(home), datetime.now(UTC))
    file = keyring.trusted_folder(home) / f"{old.public.key_id}.pub"
    file.write_bytes(file.read_bytes().replace(b"Retired: 2", b"Retired: +"))
    assert verified(gatewright, seal(old, tmp_path))["error"]["code"] == "key_unreadable"


class TestFolderOfAnotherRun:
    """A good bundle in the folder of another run answers a question that was not asked."""

    OTHER = "run-99999999999999999999"

    @pytest.fixture
    def misnamed(self, home: Path, tmp_path: Path) -> Path:
        folder = seal(keyring.make(home, home_key(home)), home / "runs")
        shutil.move(folder, folder.with_name(self.OTHER))
        return folder.with_name(self.OTHER)

    @pytest.mark.parametrize("by_name", [True, False])
    def test_verify_fails(self, gatewright: Command, misnamed: Path, by_name: bool) -> None:
        document = verified(gatewright, self.OTHER if by_name else misnamed)
        assert [(finding["code"], finding["path"]) for finding in document["findings"]] == [("other_run", "manifest.json")]

    def test_verify_through_a_link_that_is_called_otherwise_fails(
        self, gatewright: Command, home: Path, tmp_path: Path
    ) -> None:
        folder = seal(keyring.make(home, home_key(home)), tmp_path)
        (tmp_path / self.OTHER).symlink_to(folder)
        assert [finding["code"] for finding in verified(gatewright, tmp_path / self.OTHER)["findings"]] == ["other_run"]

    def test_report_shows_whose_key_signed(self, gatewright: Command, misnamed: Path, tmp_path: Path) -> None:
        said = gatewright("report", misnamed, "-o", tmp_path / "page.html", "--json")
        assert (said.exit_code, said.documents[0]["ok"]) == (1, False)
        assert "other_run" in (tmp_path / "page.html").read_text()

    def test_show_refuses(self, gatewright: Command, misnamed: Path) -> None:
        assert gatewright("show", self.OTHER, "--json").documents[0]["error"]["code"] in {"other_run", "run_unknown"}
        assert gatewright("show", misnamed, "--as", "brief", "--json").documents[0]["error"]["code"] == "other_run"

    def test_replay_fails(self, gatewright: Command, misnamed: Path) -> None:
        said = gatewright("replay", misnamed, "--json")
        assert said.exit_code == 1
        assert [finding["code"] for finding in said.documents[0]["findings"]] == ["other_run"]
        again = gatewright("replay", "--reexecute", misnamed, "--json")
        assert again.exit_code != 0
