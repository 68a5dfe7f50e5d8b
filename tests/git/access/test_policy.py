"""What may stand in repositories.json: a reference for a place that it fits, and never a key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gatewright.errors import ConfigurationError, DeniedError, GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import REPOSITORIES_FILE, RepositoriesPolicy
from gatewright.git.refs import parse_url
from gatewright.resources import policy_directory
from tests.git.access.conftest import write_policy

PLACE = "https://forge.example/team/"
TOKEN = {"token": {"environment": "SHOP_TOKEN"}}
KEY = {"key_file": "/run/secrets/key"}
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINNMVUIDVsW3JoBcpA9OI6yc71AS7LKlGQxnLTlYjH7S"
SIGN = {"format": "ssh", "key_file": "/run/secrets/signing"}
SSH = ["ssh://git@forge.example/team/", "git@forge.example:team/"]


def source(url: str) -> Any:
    return parse_url(url, ("https", "ssh"))


def test_a_complete_folder_without_the_file_gives_no_credentials(tmp_path: Path) -> None:
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (policies / "repositories.json").unlink()
    loaded = REPOSITORIES_FILE.load(policies)
    assert (loaded.policy.repositories, loaded.sha256) == ((), None)
    access = RepositoryAccess.load(policies, "gatekeeper")
    assert not access.resolve(source("https://forge.example/team/x"), "push").answers
    with pytest.raises(GitError, match="no credential to read"):
        access.resolve(source("git@forge.example:team/x"), "read")


def test_the_shipped_policy_uses_the_account_agent_for_ssh_alone() -> None:
    access = RepositoryAccess.load(policy_directory(), "worker")
    by_ssh, by_https = (access.resolve(source(url), "read") for url in ("git@forge.example:team/x", "https://forge.example/x"))
    assert "IdentityFile" not in by_ssh.settings["core.sshCommand"]
    assert "SSH_AUTH_SOCK" not in by_ssh.environment
    assert (by_https.settings, by_https.environment, by_https.answers) == ({}, {}, ())


@pytest.mark.parametrize(
    "entry",
    [
        {"places": ["*"], "read": TOKEN},
        {"places": ["*"], "read": KEY},
        {"places": SSH, "read": TOKEN},
        {"places": [PLACE], "read": KEY},
        {"places": [PLACE], "read": {}},
        {"places": [PLACE], "read": TOKEN | KEY},
        {"places": [PLACE], "read": {"token": {"environment": "GATEWRIGHT_TOKEN"}}},
        {"places": [PLACE], "read": {"token": "ghp_in_the_clear"}},
        {"places": [PLACE], "read": TOKEN | {"user": "a:b"}},
        {"places": [PLACE], "read": TOKEN | {"roles": ["cook"]}},
        {"places": [PLACE], "push": TOKEN | {"roles": ["worker"]}},
        {"places": [PLACE], "known_hosts": "/etc/known_hosts"},
        {"places": SSH, "ca_file": "/etc/ca.pem"},
        {"places": SSH, "known_hosts": "/etc/known hosts"},
        {"places": SSH, "read": {"key_file": "/run/%h"}},
        {"places": SSH, "read": {"key_file": "key"}},
        {"places": ["/srv/git/"], "read": {"agent": True}},
        {"places": ["https://me:pw@forge.example/"]},
        {"places": []},
        {"places": [PLACE], "proxy": {"url": "http://me:pw@proxy:3128"}},
        {"places": [PLACE], "proxy": {"url": "http://proxy:3128", "user": "me"}},
        {"places": [PLACE], "proxy": {"url": "socks5://proxy"}},
        {"places": ["/srv/git/"]},
        {"places": ["/srv/git/"], "sign": SIGN, "push": {"agent": True}},
        {"places": [PLACE], "signatures": "wanted"},
        {"places": [PLACE], "sign": {"format": "ssh"}},
        {"places": [PLACE], "sign": {"format": "x509", "key_file": "/run/key"}},
        {"places": [PLACE], "sign": SIGN | {"agent": True, "key": PUBLIC}},
        {"places": [PLACE], "sign": SIGN | {"key": PUBLIC}},
        {"places": [PLACE], "sign": SIGN | {"key_file": "key"}},
        {"places": [PLACE], "sign": SIGN | {"key_file": "/run/key,--exec=x y"}},
        {"places": [PLACE], "sign": SIGN | {"format": "openpgp"}},
        {"places": [PLACE], "sign": SIGN | {"passphrase": "in_the_clear"}},
        {"places": [PLACE], "sign": {"format": "ssh", "agent": True}},
        {"places": [PLACE], "sign": {"format": "ssh", "agent": True, "key": "/etc/ssh/ssh_host_ed25519_key"}},
        {"places": [PLACE], "sign": {"format": "ssh", "agent": True, "key": f"{PUBLIC}\nssh-rsa AAAA"}},
        {"places": [PLACE], "sign": {"format": "openpgp", "agent": True, "key": "--output=/tmp/x"}},
        {"places": [PLACE], "sign": {"format": "openpgp", "agent": True, "key": "F00D"}},
        {"places": [PLACE], "sign": SIGN | {"committer": {"name": "Bot"}}},
        {"places": [PLACE], "sign": SIGN | {"committer": {"name": "Bot <x@y>", "email": "bot@example.org"}}},
        {"places": [PLACE], "sign": SIGN | {"committer": {"name": "Bot\nparent 1", "email": "bot@example.org"}}},
        {"places": [PLACE], "sign": SIGN | {"committer": {"name": "Bot", "email": ""}}},
    ],
    ids=lambda entry: json.dumps(entry)[:60],
)
def test_what_cannot_be_meant_stops_the_start_and_is_not_repeated(tmp_path: Path, entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        REPOSITORIES_FILE.load(write_policy(tmp_path, entry))
    assert "repositories.json" in caught.value.message
    assert "in_the_clear" not in caught.value.message


def test_the_first_entry_that_covers_an_address_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "one")
    monkeypatch.setenv("TEAM_TOKEN", "two")
    folder = write_policy(
        tmp_path,
        {"places": [PLACE + "shop.git"], "read": TOKEN},
        {"places": [PLACE], "read": {"token": {"environment": "TEAM_TOKEN"}, "user": "bot"}},
    )
    access = RepositoryAccess.load(folder, "worker")
    (shop,) = access.resolve(source("https://forge.example/team/shop.git"), "read").answers
    (other,) = access.resolve(source("https://forge.example/team/other"), "read").answers
    assert (shop.path, shop.username, shop.password) == ("team/shop.git", "x-access-token", "one")
    assert (other.path, other.username, other.password) == ("team/other", "bot", "two")
    assert not access.resolve(source("https://forge.example.evil/team/shop.git"), "read").answers


@pytest.mark.parametrize("role", ["worker", "testrunner", "reviewer", "techlead", "pm"])
def test_no_role_but_the_gatekeeper_pushes_under_any_policy(tmp_path: Path, role: Any) -> None:
    access = RepositoryAccess.load(write_policy(tmp_path, {"places": [PLACE], "read": TOKEN, "push": TOKEN}), role)
    for address in ("https://forge.example/team/x", "https://elsewhere.example/x"):
        with pytest.raises(DeniedError) as caught:
            access.resolve(source(address), "push")
        assert caught.value.reason == "repository_role_not_allowed"


def test_the_reading_credential_does_not_stand_in_for_the_pushing_one(tmp_path: Path) -> None:
    access = RepositoryAccess.load(write_policy(tmp_path, {"places": [PLACE], "read": TOKEN}), "gatekeeper")
    with pytest.raises(GitError) as caught:
        access.resolve(source("https://forge.example/team/x"), "push")
    assert caught.value.reason == "repository_credentials_missing"


def test_a_role_is_given_the_variables_that_it_has_a_use_for() -> None:
    def of(name: str, **more: Any) -> dict[str, Any]:
        return {"token": {"environment": name}, **more}

    policy = RepositoriesPolicy.model_validate_json(
        json.dumps(
            {
                "version": "1",
                "repositories": [
                    {"places": [PLACE], "read": of("READ"), "push": of("PUSH")},
                    {"places": ["https://b.example/"], "read": of("JUDGES", roles=["testrunner"])},
                ],
            }
        )
    )
    assert policy.variables("worker") == {"READ"}
    assert policy.variables("testrunner") == {"READ", "JUDGES"}
    assert policy.variables("gatekeeper") == {"READ", "PUSH"}
