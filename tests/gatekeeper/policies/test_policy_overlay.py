"""A folder with one policy lies over the delivered ones; a misspelt name, an empty folder and a missing one are refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.git.access.policy import REPOSITORIES_FILE
from gatewright.models.policy import load_models
from gatewright.policy_files import ORGANISATION, REQUIRED, policy_origins, policy_path
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.load import load
from tests.command_line import invoke

DELIVERED = policy_directory()


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder with a stricter limit on sizes alone."""
    folder = tmp_path / "mine"
    folder.mkdir()
    document = json.loads((DELIVERED / "protected_paths.json").read_text())
    document["limits"]["max_changed_files"] = 3
    (folder / "protected_paths.json").write_text(json.dumps(document))
    return folder


def test_a_folder_with_one_file_lies_over_the_delivered_policies(overlay: Path) -> None:
    merged, delivered = load(overlay), load(DELIVERED)
    assert merged.protected.limits.max_changed_files == 3
    assert (merged.packs, merged.registry, merged.models) == (delivered.packs, delivered.registry, delivered.models)
    assert [rule.name for rule in merged.rules] == [rule.name for rule in delivered.rules]
    assert load_models(overlay).policy == load_models(DELIVERED).policy
    assert REPOSITORIES_FILE.load(overlay).policy == REPOSITORIES_FILE.load(DELIVERED).policy


def test_the_digest_that_runs_record_covers_the_merged_set(overlay: Path) -> None:
    merged, delivered = load(overlay), load(DELIVERED)
    own = hashlib.sha256((overlay / "protected_paths.json").read_bytes()).hexdigest()
    assert merged.digests == {**delivered.digests, "protected_paths.json": own}
    assert merged.sha256 != delivered.sha256
    full = overlay.with_name("full")
    shutil.copytree(DELIVERED, full)
    shutil.copy(overlay / "protected_paths.json", full)
    assert load(full).sha256 == merged.sha256


def test_a_complete_folder_stands_alone_and_nothing_left_out_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "complete"
    shutil.copytree(DELIVERED, folder)
    (folder / "repositories.json").unlink()
    for rule in (folder / ORGANISATION).iterdir():
        rule.unlink()
    found = load(folder)
    assert found.rules == ()
    assert "repositories.json" not in found.digests
    assert REPOSITORIES_FILE.load(folder).sha256 is None
    assert not any(each.delivered for each in policy_origins(folder))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("protected_path.json", "protected_paths.json"),
        ("Protected_Paths.json", "protected_paths.json"),
        ("protected_paths.jsn", "protected_paths.json"),
        ("aprovers.json", "approvers.json"),
        ("CODEOWNER", "CODEOWNERS"),
        ("organization", "organisation"),
        ("my-settings.json", ""),
        ("rule.cel", ""),
    ],
)
def test_a_name_that_no_policy_has_is_refused(overlay: Path, name: str, meant: str) -> None:
    (overlay / name).write_text("{}")
    with pytest.raises(ConfigurationError) as refused:
        load(overlay)
    assert refused.value.reason == "policy_unknown"
    assert name in refused.value.message
    assert (f"rename it to {meant}" if meant else "the names are") in refused.value.message


@pytest.mark.parametrize("name", ["known_hosts", "README.md", ".git", "..data", "deploy_key"])
def test_other_files_may_lie_beside_the_policies(overlay: Path, name: str) -> None:
    (overlay / name).write_text("words")
    assert load(overlay).protected.limits.max_changed_files == 3


def test_a_folder_that_was_not_mounted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(ConfigurationError):
            load(folder)
    with pytest.raises(ConfigurationError):
        policy_path(tmp_path / "nowhere", REQUIRED[0])


@pytest.mark.parametrize("lost", ["protected_paths.json", ORGANISATION])
def test_a_complete_folder_that_lost_a_policy_is_refused(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "complete"
    shutil.copytree(DELIVERED, folder)
    (folder / lost).rename(tmp_path / lost)
    with pytest.raises(ConfigurationError) as refused:
        load(folder)
    assert (refused.value.reason, lost in refused.value.message) == ("policy_missing", True)


def test_a_broken_overlay_file_is_never_silently_replaced(overlay: Path) -> None:
    (overlay / "models.json").symlink_to(overlay / "gone")
    with pytest.raises(ConfigurationError):
        load(overlay)


def test_policy_show_and_doctor_name_the_source_of_each_file(overlay: Path) -> None:
    shown = invoke(["policy", "show", "--policies", str(overlay), "--json"])
    files = {each["name"]: each for each in json.loads(shown.stdout)["files"]}
    assert (files["protected_paths.json"]["from"], files["models.json"]["from"]) == ("folder", "delivered")
    assert files["protected_paths.json"]["path"] == str(overlay / "protected_paths.json")
    text = invoke(["policy", "show", "--policies", str(overlay)]).stdout
    assert str(overlay / "protected_paths.json") in text
    program = (sys.executable, "-P", "-m", "gatewright.services.gatekeeper.policies.check", str(overlay))
    told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert "protected_paths.json from there, 11 delivered" in told
    assert load(overlay).sha256[:16] in told
    (overlay / "model.json").write_text("{}")
    refused = invoke(["policy", "show", "--policies", str(overlay)])
    assert refused.returncode != 0
    assert "rename it to models.json" in refused.stderr + refused.stdout
