"""How the signing settings of the user's git reach the gatekeeper of an embedded stack, and no other role."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.cli.settings import inherited_environment
from gatewright.app.cli.user_git import with_user_signing
from gatewright.errors import ConfigurationError
from gatewright.services.gatekeeper.settings import Settings
from tests.cli.conftest import MakeRepository

VARIABLE = "GATEWRIGHT_USER_SIGNING"
KEYS = {"worker": {"TOKEN": "t"}, "gatekeeper": {"PUSH": "p"}}


@pytest.fixture
def project(make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a user whose git signs every commit."""
    folder = make_repository("project")
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = Ada\nemail = ada@shop.example\n[commit]\ngpgSign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GNUPGHOME", "/keyring")
    return folder


def test_without_signing_nothing_is_added(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GNUPGHOME", "/keyring")
    assert with_user_signing(KEYS, make_repository("project")) == KEYS
    assert with_user_signing(KEYS, tmp_path / "nowhere") == KEYS


def test_the_gatekeeper_alone_receives_the_settings(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_user_signing(KEYS, project)
    assert found["worker"] == KEYS["worker"]
    assert found["gatekeeper"].keys() == {"PUSH", VARIABLE, "GNUPGHOME"}
    monkeypatch.setenv(VARIABLE, found["gatekeeper"][VARIABLE])
    signing = Settings.load().user_signs
    assert signing is not None
    assert (signing.repository, signing.format) == (str(project.resolve() / ".git"), "openpgp")


def test_a_process_that_was_started_with_settings_keeps_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "{}")
    assert with_user_signing({}, project)["gatekeeper"][VARIABLE] == "{}"
    assert VARIABLE not in inherited_environment()


def test_settings_that_cannot_be_read_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"format": 1}')
    with pytest.raises(ConfigurationError, match=VARIABLE):
        _ = Settings.load().user_signs
