"""What a command's end looks like to whoever ran it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import CommandRefusedError, ConfigurationError, SandboxError
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, Run


async def test_output_and_exit_code_come_back(run: Run) -> None:
    completed = await run("sh", "-c", "printf out; printf err >&2; exit 7")
    assert (completed.exit_code, completed.stdout, completed.stderr) == (7, b"out", b"err")
    assert (completed.timed_out, completed.truncated, completed.stopped) == (False, False, "")
    assert completed.duration_seconds > 0


async def test_signal_becomes_an_exit_code(run: Run) -> None:
    assert (await run("sh", "-c", "kill -TERM $$")).exit_code == 128 + 15


async def test_missing_program_is_exit_code_127(run: Run) -> None:
    completed = await run("no-such-program", "--help")
    assert completed.exit_code == 127
    assert b"no-such-program" in completed.stderr


async def test_file_that_cannot_be_executed_is_exit_code_126(run: Run, place: Folder) -> None:
    (place.path / "data").write_text("data")
    assert (await run("./data")).exit_code == 126


async def test_words_reach_the_command_as_they_are(run: Run) -> None:
    words = ("$HOME", "`id`", "a b", "*", "; id", "-x", "", "'", "\\n", "é", "\n")
    completed = await run("printf", "%s|", *words)
    assert completed.stdout.decode() == "|".join(words) + "|"


async def test_failing_command_is_no_sandbox_failure(run: Run) -> None:
    completed = await run("sh", "-c", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    assert completed.exit_code == 1


async def test_environment_comes_first_on_the_path(run: Run, python: Path) -> None:
    completed = await run("sh", "-c", "command -v python; echo $VIRTUAL_ENV", prefix=python)
    assert completed.stdout.decode().split() == [str(python / "bin/python"), str(python)]
    found = await run("python", "-c", "import sys, msgspec; print(sys.prefix)", prefix=python)
    assert found.stdout.decode().strip() == str(python)


async def test_commit_time_reaches_the_command(sandbox: BubblewrapSandbox, place: Folder) -> None:
    completed = await sandbox.run(
        ("printenv", "SOURCE_DATE_EPOCH"), workspace=place, prefix=None, limits=LIMITS, source_date_epoch=1_700_000_000
    )
    assert completed.stdout == b"1700000000\n"


async def test_locale_zone_and_hash_seed_are_fixed(run: Run) -> None:
    completed = await run("printenv", "LANG", "TZ", "PYTHONHASHSEED")
    assert completed.stdout == b"C.UTF-8\nUTC\n0\n"


@pytest.mark.parametrize("argv", [(), ("",), ("-c", "x"), ("a\0b",), ("A=1", "b")])
async def test_what_is_no_argv_is_refused(run: Run, argv: tuple[str, ...]) -> None:
    with pytest.raises(CommandRefusedError):
        await run(*argv)


async def test_forbidden_prefix_is_refused_before_anything_runs(run: Run) -> None:
    with pytest.raises(ConfigurationError):
        await run("true", prefix=Path("/etc"))


async def test_sandbox_that_cannot_be_made_names_its_cause(sandbox: BubblewrapSandbox, place: Folder) -> None:
    class Broken(Folder):
        @property
        def mounts(self) -> tuple[str, ...]:
            return ("--bind", "/does/not/exist", "/workspace")

    with pytest.raises(SandboxError, match="/does/not/exist"):
        await sandbox.run(("true",), workspace=Broken(place.path), prefix=None, limits=LIMITS)
