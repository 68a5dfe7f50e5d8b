"""``--env auto`` on the command line: made before the run, here, or refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, MakeRepository

RUN = ("run", "do it", "--allow", "src", "--exec", "true", "--test", "true", "--env", "auto")


def test_an_environment_is_not_prepared_for_a_system_that_runs_elsewhere(
    gatewright: Command, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repository("r"))
    monkeypatch.setenv("GATEWRIGHT_NATS_URL", "nats://127.0.0.1:1")
    said = gatewright(*RUN)
    assert said.exit_code == 2
    assert "name one with --env DIR" in said.err


def test_a_folder_of_that_name_is_named_by_its_path(
    gatewright: Command, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(make_repository("r"))
    said = gatewright(*RUN[:-1], "./auto/x")
    assert said.exit_code == 2
    assert "there is no folder" in said.err
