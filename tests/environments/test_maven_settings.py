"""The registry of Maven in the user's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.registries import java_registries
from gatewright.sandbox.environments import PreparedEnvironment

SERVER = "<server><id>own</id><username>me</username><password>{}</password></server>"
MIRROR = "<mirror><id>own</id><mirrorOf>{}</mirrorOf><url>https://own.example/maven</url></mirror>"


def user(folder: Path, mirror: str, password: str = "${env.WORD}") -> Installer:  # noqa: S107 - a variable
    (folder / ".m2").mkdir()
    listed = f"<servers>{SERVER.format(password)}</servers><mirrors>{MIRROR.format(mirror)}</mirrors>"
    (folder / ".m2/settings.xml").write_text(f'<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0">{listed}</settings>')
    return Installer({"HOME": str(folder), "WORD": "hidden"})


@pytest.mark.parametrize("mirror", ["*", "central", "external:*", "one,central"])
def test_a_mirror_of_central_replaces_it(tmp_path: Path, mirror: str) -> None:
    registries, settings = java_registries(user(tmp_path, mirror))
    (source,) = registries.sources
    assert (source.hosts[0], source.index, registries.secrets[source.credential]) == ("own.example", "/maven", "me:hidden")
    assert b"<mirrorOf>*</mirrorOf><url>https://own.example/maven</url>" in settings
    assert b"hidden" not in settings


@pytest.mark.parametrize("mirror", ["internal", "*,!central"])
def test_a_mirror_of_another_registry_leaves_central(tmp_path: Path, mirror: str) -> None:
    registries, _ = java_registries(user(tmp_path, mirror))
    assert [each.hosts[0] for each in registries.sources] == ["repo.maven.apache.org"]
    assert registries.secrets == {}


def test_an_encrypted_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match="the password of own is encrypted"):
        java_registries(user(tmp_path, "*", "{jSMOWnoPFgsHVpMvz5VrIt5kRbzGpI8u+9EF1iFQyJQ=}"))


@pytest.mark.parametrize(
    ("prefix", "name", "value"),
    [
        ("/e/1", "MAVEN_OPTS", "-Dmaven.conf=/e/1/maven"),
        ("/Läden und Höfe/1", "JDK_JAVA_OPTIONS", '"-Dmaven.conf=/Läden und Höfe/1/maven"'),
    ],
)
def test_a_command_finds_the_settings_at_any_path(prefix: str, name: str, value: str) -> None:
    assert PreparedEnvironment("maven", {}, ecosystem="java").variables(Path(prefix)) == {name: value}
