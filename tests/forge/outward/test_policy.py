"""``forges.json``: what its schema cannot check, and its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.forge.policy import load_forges, read_secret
from gatewright.contracts import Forges, codec
from gatewright.contracts.forge_policy import ForgeEntry, SecretReference
from gatewright.errors import ConfigurationError
from tests.forge.outward.runs import ENTRY, RULE

SECRET = "ghp_0123456789abcdef"


def write(folder: Path, *entries: ForgeEntry) -> Path:
    (folder / "forges.json").write_bytes(codec.encode(Forges(version="1", forges=entries)))
    return folder


def test_a_valid_policy_is_read(tmp_path: Path) -> None:
    assert load_forges(write(tmp_path, ENTRY)) == (ENTRY,)


def test_a_missing_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_forges(tmp_path)
    assert refused.value.reason == "forge_policy_missing"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"api": "http://forge.example/api"}, "use https"),
        ({"repository": "ext::sh -c x"}, "repository"),
        ({"repository": "https://u:p@h.example/x"}, "repository"),
        ({"repository": "*"}, "repository"),
        ({"repository": "https://h.example/acme/"}, "name one repository"),
        ({"project": "acme/.."}, "project"),
        ({"target": "refs/heads/main"}, "target"),
        ({"target": "main..x"}, "target"),
        ({"token": SecretReference()}, "exactly one"),
        ({"token": SecretReference(environment="A", file="/run/x")}, "exactly one"),
        ({"token": SecretReference(environment="GATEWRIGHT_TOKEN")}, "reaches every process"),
        ({"webhook_secret": SecretReference(environment="gatewright_x")}, "reaches every process"),
        ({"judge": replace(RULE, landing="target")}, "judge.landing"),
        ({"merge": "gatekeeper"}, "judge.landing"),
        ({"merge": "gatekeeper", "judge": None}, "goes with judge"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_forges(write(tmp_path, replace(ENTRY, **changes)))
    assert words in refused.value.message
    assert "entry shop" in refused.value.message


def test_two_entries_need_two_names_and_repositories(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="2 entries have"):
        load_forges(write(tmp_path, ENTRY, replace(ENTRY, name="other")))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"version": "1", "forges": [{{"token": "{SECRET}"}}]}}',
        f'{{"version": "1", "forges": "{SECRET}"}}',
        f'{{"version": "{SECRET}", "forges": []}}',
        f"{SECRET}",
    ],
)
def test_a_token_in_the_policy_is_not_repeated(tmp_path: Path, text: str) -> None:
    (tmp_path / "forges.json").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_forges(tmp_path)
    assert SECRET not in str(refused.value)


def test_a_secret_comes_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    assert read_secret(SecretReference(environment="FORGE_TOKEN")) == SECRET
    assert read_secret(SecretReference(file=str(tmp_path / "token"))) == SECRET


def test_a_missing_secret_has_its_own_code(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_secret(SecretReference(file=str(tmp_path / "none")))
    assert refused.value.reason == "forge_token_missing"
