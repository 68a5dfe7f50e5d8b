"""Which folders may be shown as an environment, and what comes with them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.prefix import home_folders, inspect_prefix

CALLER = SandboxAccount(1, 1, switched=False)
OTHER = SandboxAccount(65432, 65432, switched=True)


def make_installation(base: Path) -> None:
    (base / "bin").mkdir(parents=True)
    (base / "bin" / "python3.12").touch()
    (base / "bin" / "python3").symlink_to("python3.12")
    (base / "lib" / "python3.12").mkdir(parents=True)
    (base / "lib" / "python3.12" / "os.py").touch()


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment whose interpreter lies elsewhere, behind a link that names its version."""
    base = tmp_path / "pythons" / "3.12.1"
    make_installation(base)
    (tmp_path / "pythons" / "3.12").symlink_to("3.12.1")
    prefix = tmp_path / "project" / ".venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to("python3")
    (prefix / "bin" / "python3").symlink_to(tmp_path / "pythons" / "3.12" / "bin" / "python3")
    (prefix / "pyvenv.cfg").write_text(f"home = {tmp_path}/pythons/3.12/bin\nversion = 3.12.1\n")
    return prefix


def shown(path: Path, homes: tuple[Path, ...] = (), account: SandboxAccount = CALLER) -> dict[str, str]:
    """Inside path to host folder."""
    return {str(inside): str(source) for source, inside in inspect_prefix(path, homes=homes, account=account).binds}


def test_interpreter_comes_with_its_environment(environment: Path, tmp_path: Path) -> None:
    real = str(tmp_path / "pythons" / "3.12.1")
    assert shown(environment) == {str(environment): str(environment), real: real, str(tmp_path / "pythons" / "3.12"): real}


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
    make_installation(home)
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(home / "bin" / "python3")
    with pytest.raises(ConfigurationError, match="home"):
        shown(prefix, homes=(home,))


HOMES = ["/", "/home", "/root", "/etc", "/etc/bin", "relative/bin", "{}/secret", "{}/secret/bin"]


@pytest.mark.parametrize("home", HOMES)
def test_home_in_a_settings_file_shows_no_other_folder(environment: Path, tmp_path: Path, home: str) -> None:
    """``home = /home/secret`` in a pyvenv.cfg that the repository wrote."""
    (tmp_path / "secret" / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {home.format(tmp_path)}\n")
    with pytest.raises(ConfigurationError) as caught:
        shown(environment)
    assert caught.value.reason == "environment_leads_elsewhere"


@pytest.mark.parametrize("name", ["python", "sub/bin/python", "bin/anything"])
def test_link_in_an_environment_shows_no_other_folder(environment: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    (secret / name).parent.mkdir(parents=True)
    (secret / name).touch()
    (environment / "bin" / "python").unlink()
    (environment / "bin" / "python").symlink_to(secret / name)
    with pytest.raises(ConfigurationError) as caught:
        shown(environment)
    assert caught.value.reason == "environment_leads_elsewhere"


@pytest.mark.parametrize("forged", ["a library elsewhere", "a library of another name", "no program"])
def test_folder_that_only_looks_like_an_installation_is_not_shown(environment: Path, tmp_path: Path, forged: str) -> None:
    base, secret = tmp_path / "pythons" / "3.12.1", tmp_path / "secret"
    library = base / "lib" / "python3.12"
    if forged == "no program":
        (base / "bin" / "python3").unlink()
        (base / "bin" / "python3.12").rename(base / "bin" / "tool")
        (base / "bin" / "tool3").symlink_to("tool")
        (environment / "bin" / "python3").unlink()
        (environment / "bin" / "python3").symlink_to(base / "bin" / "tool")
    else:
        library.rename(secret)
        (base / "lib" / ("python3.12" if forged == "a library elsewhere" else "python")).symlink_to(secret)
    with pytest.raises(ConfigurationError) as caught:
        shown(environment)
    assert caught.value.reason == "environment_leads_elsewhere"


def test_path_files_and_links_to_other_programs_bring_nothing_along(environment: Path, tmp_path: Path) -> None:
    """An editable install, a ``.pth`` file, a tool that lies elsewhere."""
    before = shown(environment)
    packages = environment / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (packages / "editable.pth").write_text(f"{tmp_path}/elsewhere\n")
    (packages / "package").symlink_to(tmp_path / "elsewhere")
    (environment / "bin" / "tool").symlink_to(tmp_path / "elsewhere")
    assert shown(environment) == before


def test_link_on_the_way_is_shown_without_its_folder(environment: Path, tmp_path: Path) -> None:
    """As uv leaves it: ``~/.local/bin/python3.12`` leads to the installation, and beside it lie keyrings."""
    local = tmp_path / "person" / ".local"
    (local / "bin").mkdir(parents=True)
    (local / "share" / "keyrings").mkdir(parents=True)
    base = tmp_path / "pythons" / "3.12.1"
    (local / "bin" / "python3.12").symlink_to(base / "bin" / "python3.12")
    (environment / "bin" / "python3").unlink()
    (environment / "bin" / "python3").symlink_to(local / "bin" / "python3.12")
    (environment / "pyvenv.cfg").write_text(f"home = {local}/bin\n")
    found = inspect_prefix(environment, homes=(tmp_path / "person",), account=CALLER)
    assert {str(inside) for _, inside in found.binds} == {str(environment), str(base)}
    assert found.links == ((local / "bin" / "python3.12", str(base / "bin" / "python3.12")),)


def test_environment_made_from_another_one_shows_both(environment: Path, tmp_path: Path) -> None:
    (environment / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    second = tmp_path / "second"
    (second / "bin").mkdir(parents=True)
    (second / "bin" / "python").symlink_to(environment / "bin" / "python")
    (second / "pyvenv.cfg").write_text(f"home = {environment}/bin\n")
    assert {str(second), str(environment), str(tmp_path / "pythons" / "3.12.1")} <= shown(second).keys()


def test_home_of_gatewright_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gatewright" / "worker" / "bin").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="home of gatewright"):
        shown(tmp_path / ".gatewright" / "worker")


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
    # ``nobody``, and a number that no account has, can run tests as well, and have no home.
    people = [account for account in pwd.getpwall() if account.pw_uid in (0, os.getuid()) and account.pw_name != "nobody"]
    assert people
    assert {Path(account.pw_dir).resolve() for account in people} <= home_folders()
    assert Path("/") not in home_folders()
