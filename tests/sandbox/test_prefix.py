"""Which folders may be shown as an environment, and what comes with them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.sandbox.account import Account
from gatewright.sandbox.prefix import home_folders, inspect_prefix

CALLER = Account(1, 1, switched=False)
OTHER = Account(65432, 65432, switched=True)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment whose interpreter lies elsewhere, behind a link that names its version."""
    base = tmp_path / "pythons" / "3.12.1"
    (base / "bin").mkdir(parents=True)
    (base / "bin" / "python3.12").touch()
    (base / "bin" / "python3").symlink_to("python3.12")
    (tmp_path / "pythons" / "3.12").symlink_to("3.12.1")
    prefix = tmp_path / "project" / ".venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to("python3")
    (prefix / "bin" / "python3").symlink_to(tmp_path / "pythons" / "3.12" / "bin" / "python3")
    (prefix / "pyvenv.cfg").write_text(f"home = {tmp_path}/pythons/3.12/bin\nversion = 3.12.1\n")
    return prefix


def shown(path: Path, homes: tuple[Path, ...] = (), account: Account = CALLER) -> dict[str, str]:
    """Inside path to host folder."""
    return {str(inside): str(source) for source, inside in inspect_prefix(path, homes=homes, account=account).binds}


def test_interpreter_comes_with_its_environment(environment: Path, tmp_path: Path) -> None:
    real = str(tmp_path / "pythons" / "3.12.1")
    assert shown(environment) == {str(environment): str(environment), real: real, str(tmp_path / "pythons" / "3.12"): real}
    assert inspect_prefix(environment, homes=(), account=CALLER).virtual


def test_environment_behind_a_link_is_shown_under_both_names(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(environment)
    assert shown(tmp_path / "current")[str(tmp_path / "current")] == str(environment)
    assert str(environment) in shown(tmp_path / "current")


def test_system_prefix_needs_no_binds() -> None:
    assert shown(Path("/usr")) == {}


@pytest.mark.parametrize(
    "name", ["/", "/home", "/etc", "/etc/ssl", "/proc/self", "/var", "/opt", "/run/user", "/sys", "/dev/fd"]
)
def test_folders_of_the_system_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        shown(Path(name))


@pytest.mark.parametrize("below", ["", "person", "person/project"])
def test_home_and_what_holds_one_are_refused(tmp_path: Path, below: str) -> None:
    home = tmp_path / "homes" / "person"
    (home / "bin").mkdir(parents=True)
    refused = tmp_path / "homes" / below
    if below == "person/project":
        (refused / "bin").mkdir(parents=True)
        assert shown(refused, homes=(home,))
        return
    (refused / "bin").mkdir(exist_ok=True)
    with pytest.raises(ConfigurationError, match="home"):
        shown(refused, homes=(home,))


def test_link_to_a_home_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (tmp_path / "env").symlink_to(home)
    with pytest.raises(ConfigurationError, match="home"):
        shown(tmp_path / "env", homes=(home,))


def test_interpreter_in_a_home_itself_is_refused(tmp_path: Path) -> None:
    """``~/bin/python`` would show the whole home."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").touch()
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(home / "bin" / "python3")
    with pytest.raises(ConfigurationError, match="home"):
        shown(prefix, homes=(home,))


def test_interpreter_named_by_a_settings_file_is_checked_too(environment: Path) -> None:
    (environment / "pyvenv.cfg").write_text("home = /etc/bin\n")
    with pytest.raises(ConfigurationError):
        shown(environment)


@pytest.mark.parametrize("secret", [".ssh", ".aws", ".gnupg", ".netrc", ".kube"])
def test_folder_with_secrets_is_refused(environment: Path, secret: str) -> None:
    (environment / secret).mkdir()
    with pytest.raises(ConfigurationError, match=secret):
        shown(environment)


@pytest.mark.parametrize("path", ["relative", "/usr/../etc", "/does/not/exist"])
def test_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        shown(Path(path))


def test_folder_without_programs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    with pytest.raises(ConfigurationError, match="bin"):
        shown(tmp_path / "env")


def test_endless_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to("env")
    with pytest.raises(ConfigurationError):
        shown(tmp_path / "env")


def test_environment_that_only_root_can_read_is_named(environment: Path) -> None:
    environment.chmod(0o700)
    with pytest.raises(ConfigurationError, match="chmod"):
        shown(environment, account=OTHER)
    assert shown(environment, account=CALLER)


def test_homes_of_people_are_known() -> None:
    assert Path(pwd.getpwuid(os.getuid()).pw_dir).resolve() in home_folders()
    assert Path("/") not in home_folders()
