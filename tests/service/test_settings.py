"""Settings come from the environment, are checked, and never shown."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from gatewright.errors import ConfigurationError
from gatewright.service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]
#: Files that may touch the environment of the process, and why.
ALLOWED: dict[str, str] = {
    "shared/gatewright/app/stack/fork_server_process.py": "a forked role takes on the environment that it was ordered with",
    **dict.fromkeys(
        (
            f"shared/gatewright/ecosystems/python/reporter/{name}.py"
            for name in ("channel", "pytest_plugin", "recording", "replaying", "unittest_hook")
        ),
        "runs beside tests, in their process: what it is told stands in variables, which it takes away",
    ),
    "shared/gatewright/policy_files.py": "a key is read when it is sent, from the variable that the policy names",
    "shared/gatewright/own_interpreter.py": "an interpreter that needs a path for its loader hands it on to itself",
    "shared/gatewright/git/library_git.py": "GitPython tries the program that a variable names while it is imported",
    "shared/gatewright/git/transport.py": "proxies and the SSH agent keep their values out of every argument and log",
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("GATEWRIGHT_")]:
        monkeypatch.delenv(name)


def test_defaults_are_those_of_a_single_host() -> None:
    settings = ServiceSettings.load()
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert (settings.sandbox, settings.metrics_host, settings.concurrency) == ("bubblewrap", "127.0.0.1", 1)
    assert (settings.secret_scanner, settings.scanner().name.partition(" ")[0]) == ("kingfisher", "patterns+kingfisher")
    assert settings.home == Path.cwd() / ".gatewright"
    assert settings.directory("worker") == settings.home / "worker"


def test_variables_are_read_and_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_ENVIRONMENTS", "/srv/venv:/opt/with blank:")
    monkeypatch.setenv("GATEWRIGHT_METRICS_PORT", "9100")
    monkeypatch.setenv("GATEWRIGHT_OF_ANOTHER_ROLE", "x")
    settings = ServiceSettings.load()
    assert settings.environments == (Path("/srv/venv"), Path("/opt/with blank"))
    assert settings.metrics_port == 9100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("METRICS_PORT", "70000"),
        ("METRICS_PORT", "-2"),
        ("CONCURRENCY", "0"),
        ("DRAIN_SECONDS", "nan"),
        ("DRAIN_SECONDS", "inf"),
        ("POOL", "default.>"),
        ("POOL", "a b"),
        ("POOL", "a\n"),
        ("SANDBOX", "None"),
        ("LOG_LEVEL", "verbose"),
        ("ENVIRONMENTS", "relative/venv"),
        ("NATS_URL", ""),
    ],
)
def test_wrong_value_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"GATEWRIGHT_{name}", value)
    with pytest.raises(ConfigurationError, match=f"GATEWRIGHT_{name}: "):
        ServiceSettings.load()


def test_value_of_a_wrong_setting_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_CONCURRENCY", "hunter2")
    with pytest.raises(ConfigurationError) as refused:
        ServiceSettings.load()
    assert "hunter2" not in refused.value.message


def test_credential_of_the_bus_is_not_in_the_printed_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_NATS_URL", "nats://u:hunter2@host")
    assert "hunter2" not in repr(ServiceSettings.load())


def test_env_file_in_the_current_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("GATEWRIGHT_SANDBOX=none\n")
    monkeypatch.chdir(tmp_path)
    assert ServiceSettings.load().sandbox == "bubblewrap"


def test_settings_cannot_be_changed_once_read() -> None:
    with pytest.raises(ValidationError):
        ServiceSettings.load().sandbox = "none"


def reads_of_the_environment(source: str) -> list[int]:
    """Lines that reach for the environment of the process."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr="environ" | "environb" | "getenv" | "getenvb" | "putenv" | "unsetenv"):
                lines.append(node.lineno)
            case ast.ImportFrom(module="os" | "posix", names=names) if any("env" in name.name for name in names):
                lines.append(node.lineno)
            case ast.Name(id="environ" | "getenv"):
                lines.append(node.lineno)
            case _:
                pass
    return lines


def test_no_module_but_settings_reads_the_environment() -> None:
    found = {}
    for folder in ("shared/gatewright", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            name, text = path.relative_to(ROOT).as_posix(), path.read_text()
            # Whatever reads it has this in its name, and most modules have it nowhere.
            if "env" not in text or path.name == "settings.py" or name in ALLOWED:
                continue
            if lines := reads_of_the_environment(text):
                found[name] = lines
    assert found == {}


def test_exceptions_to_the_rule_still_exist_and_still_need_it() -> None:
    for name in ALLOWED:
        assert reads_of_the_environment((ROOT / name).read_text()), f"{name} is no exception any more"


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['X']",
        "import os\nos.getenv('X')",
        "from os import environ",
        "from os import getenv as g",
        "import os as o\no.environb",
    ],
)
def test_the_search_finds_every_usual_way(source: str) -> None:
    assert reads_of_the_environment(source)
