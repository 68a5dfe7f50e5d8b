"""The approval rule and the roster that a home folder has of its own."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from gatewright.app.stack import own_policies as own
from gatewright.app.stack.own_policies import own_policies, owner_name, write_own_policies
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keyring
from gatewright.evidence.signing.keys import home_key, load
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.approval_policy import load_approval_policy
from gatewright.services.gatekeeper.policies.load import load as load_policies
from gatewright.ssh_signatures import public_line
from tests.gatekeeper.publishing import HandClock


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def test_the_owner_alone_is_asked_about_ci_files_and_packages(home: Path) -> None:
    policy = load_approval_policy(write_own_policies(home, home_key(home)))
    assert [(rule.reason, rule.classes) for rule in policy.rules] == [("protected_class", ("ci",)), ("network", ())]
    for rule in policy.rules:
        assert (rule.approvers, rule.yourself) == ((owner_name(),), True)
        assert (rule.autopilot, rule.grants, rule.batch) == (False, None, False)
    (person,) = policy.roster()[0].people
    assert [key.key for key in person.keys] == [public_line(load(home_key(home)).secret)]


def test_every_other_policy_is_the_delivered_one(home: Path) -> None:
    assert load_policies(write_own_policies(home, home_key(home))).packs == load_policies(policy_directory()).packs


def test_a_rotated_key_takes_the_place_of_the_old_one(home: Path) -> None:
    folder = write_own_policies(home, home_key(home))
    before = (folder / "approvers.json").read_bytes()
    keyring.rotate(home, home_key(home), HandClock().now())
    write_own_policies(home, home_key(home))
    assert (folder / "approvers.json").read_bytes() != before


def test_a_changed_file_is_made_anew_and_is_private(home: Path) -> None:
    folder = write_own_policies(home, home_key(home))
    rules = folder / "approval_rules.json"
    rules.write_text(json.dumps({"version": "1", "rules": []}))
    write_own_policies(home, home_key(home))
    assert len(load_approval_policy(folder).rules) == 2
    assert stat.S_IMODE(rules.stat().st_mode) == 0o600


def test_a_roster_that_others_can_write_is_not_believed(home: Path) -> None:
    folder = write_own_policies(home, home_key(home))
    (folder / "approvers.json").chmod(0o666)
    with pytest.raises(ConfigurationError):
        write_own_policies(home, home_key(home))


@pytest.mark.parametrize(
    ("account", "name"), [("mia", "mia"), ("DOMAIN\\mia", "owner"), ("_apt", "owner"), ("m" * 129, "owner")]
)
def test_an_account_that_no_roster_may_hold_is_called_owner(account: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "pwd", SimpleNamespace(getpwuid=lambda _number: SimpleNamespace(pw_name=account)))
    assert owner_name() == name


def test_the_folder_lies_in_the_home(home: Path) -> None:
    assert write_own_policies(home, home_key(home)) == own_policies(home)
