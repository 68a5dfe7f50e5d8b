"""``--env auto`` on the command line: made before the run, here, or refused with what to do."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.run.start import with_environment
from gatewright.order_form.run_options import RunOptions
from tests.cli.conftest import Command, MakeRepository

RUN = ("run", "do it", "--allow", "src", "--exec", "true", "--test", "true", "--env", "auto")


def test_a_folder_of_that_name_is_named_by_its_path(
    gatewright: Command, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(make_repository("r"))
    said = gatewright(*RUN[:-1], "./auto/x")
    assert said.exit_code == 2
    assert "there is no folder" in said.err
    assert "--env auto builds an environment" in said.err


@pytest.mark.parametrize("ref", ["HEAD~1", "HEAD^", "@{0}", "short id"])
def test_an_environment_is_made_for_what_a_revision_of_this_repository_names(
    make_repository: MakeRepository, tmp_path: Path, ref: str
) -> None:
    repository = make_repository("r")
    for text in ("one", "two"):
        (repository / "a.txt").write_text(text)
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(("git", *identity, "commit", "-qam", text), cwd=repository, check=True)
    short = subprocess.run(("git", "rev-parse", "--short", "HEAD"), cwd=repository, check=True, capture_output=True, text=True)
    named = ref if ref != "short id" else short.stdout.strip()
    options = RunOptions(request="do it", ref=named, allow=("src",), commands=("true",), tests=("true",), env=(Path("auto"),))
    place = CommandContext(repository, tmp_path / "home", None, tmp_path / "key")
    made = asyncio.run(with_environment(options, place, lambda _: None))
    assert made.env == (), "no file asks for packages"
    assert made.ref == named, "the line to retry with has what the person typed"
