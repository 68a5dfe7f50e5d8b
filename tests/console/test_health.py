"""What probes are shown before the access check, and strangers with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.console.serving import HealthPaths
from gatewright.app.http_access import is_open_to_others, read_token
from gatewright.errors import ConfigurationError
from tests.console.conftest import MakeConsole
from tests.console.test_pages import TOKEN, ask


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_needs_no_host_name_or_sign_in(make_console: MakeConsole, path: str) -> None:
    console = make_console(token=TOKEN)
    while ask(console, "/readyz").status == 503:
        pass
    told = [ask(console, path, headers={"Host": name}) for name in ("10.0.0.7:8790", "elsewhere.example")]
    assert [(each.status, each.text) for each in told] == [(200, "ok\n")] * 2
    assert "set-cookie" not in told[0].headers


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/healthz"), ("GET", "/healthz/"), ("GET", "/healthz/../"), ("GET", "//healthz")]
)
def test_requests_other_than_probes_face_the_access_checks(make_console: MakeConsole, method: str, path: str) -> None:
    console = make_console(token=TOKEN)
    assert ask(console, path, method=method, headers={"Host": "elsewhere.example"}).status == 421
    assert ask(console, path, method=method).status in {303, 405}


async def test_a_console_that_still_reads_is_alive_and_not_ready() -> None:
    said: list[tuple[str, int]] = []

    async def nowhere(*_words: object) -> None:
        raise AssertionError("a probe does not go further")

    known: list[bool] = []
    for _ in range(2):
        health = HealthPaths(nowhere, lambda: bool(known))
        for path in ("/healthz", "/readyz"):

            async def send(message: dict[str, object], path: str = path) -> None:
                if message["type"] == "http.response.start":
                    said.append((path, int(str(message["status"]))))

            await health({"type": "http", "path": path, "method": "GET"}, nowhere, send)  # type: ignore[arg-type]
        known.append(True)
    assert said == [("/healthz", 200), ("/readyz", 503), ("/healthz", 200), ("/readyz", 200)]


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660])
def test_a_token_that_others_may_read_is_not_taken(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match="may be read by others"):
        read_token(file)


@pytest.mark.parametrize(
    ("mode", "owner", "account", "is_open"),
    [
        (0o440, 0, 10_001, False),
        (0o444, 0, 10_001, True),
        (0o460, 0, 10_001, True),
        (0o440, 0, 0, True),
        (0o440, 10_001, 10_001, True),
        (0o400, 10_001, 10_001, False),
    ],
)
def test_only_the_pods_group_may_read_a_root_secret(mode: int, owner: int, account: int, is_open: bool) -> None:
    assert is_open_to_others(mode, owner, account) is is_open
