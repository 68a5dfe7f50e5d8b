"""What `gatewright run` begins before it is known whether it is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.app.cli.home import find_home, make_home, new_home
from gatewright.app.cli.run import ahead
from gatewright.app.cli.run.ahead import fork_server_ahead
from gatewright.app.stack.processes import identity
from tests.cli.conftest import MakeRepository
from tests.waiting import PATIENCE


@pytest.fixture
def repository(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> Path:
    repository = make_repository("r")
    monkeypatch.chdir(repository)
    return repository


@pytest.fixture
def home(repository: Path) -> Path:
    home = find_home(None, repository)
    make_home(home)
    return home


async def test_a_home_without_a_stack_starts_a_temporary_fork_server(home: Path) -> None:
    async with fork_server_ahead() as begun:
        taken = begun.take()
        assert taken is not None
        await taken.kill()
        assert begun.take() is None
    async with fork_server_ahead() as begun:
        assert begun._fork_server is not None
        pid = begun._fork_server.pid
    assert identity(pid) is None
    assert (home / "logs" / "fork-server.log").exists()


async def test_nothing_is_begun_where_there_is_no_home_yet(repository: Path) -> None:
    async with fork_server_ahead() as begun:
        assert begun.take() is None
    assert not new_home(repository, repository).exists()


async def test_nothing_is_begun_beside_a_stack_that_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "read", lambda asked: asked == home)
    async with fork_server_ahead() as begun:
        assert begun.take() is None


async def test_a_fork_server_that_cannot_start_is_left_out(home: Path) -> None:
    shutil.rmtree(home / "logs", ignore_errors=True)
    (home / "logs").write_text("in the way")
    async with fork_server_ahead() as begun:
        assert begun.take() is None


def test_the_fork_server_starts_before_imports_and_not_for_help(home: Path) -> None:
    text = (
        "import sys\nfrom gatewright.app.stack.fork_server import ForkServer\n"
        "from gatewright.errors import ConfigurationError\n"
        "async def opened(*_, **__):\n"
        "    print('begun before', sorted({'typer', 'pydantic', 'gatewright.contracts'} - set(sys.modules)), flush=True)\n"
        "    raise ConfigurationError('seen')\n"
        "ForkServer.open = opened\nfrom gatewright.app.cli.main import main\nmain()"
    )
    said = {}
    for words in (["run"], ["run", "--help"], ["runs"]):
        argv = [sys.executable, "-c", text, *words]
        done = subprocess.run(argv, cwd=home.parents[1], capture_output=True, text=True, check=False, timeout=PATIENCE)
        said[" ".join(words)] = [line for line in done.stdout.splitlines() if line.startswith("begun")]
    assert said == {"run": ["begun before ['gatewright.contracts', 'pydantic', 'typer']"], "run --help": [], "runs": []}
