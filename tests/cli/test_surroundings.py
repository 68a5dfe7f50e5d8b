"""What goes wrong around a command is named as what it is, with what to do, and never as a defect of the program."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.app.cli.outcome import Exit, as_known, exit_of_error
from gatewright.errors import GatewrightError
from tests.command_line import invoke
from tests.series import series
from tests.waiting import PATIENCE

#: errno -> the code that a script may match on
HOST = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EIO: "disk_failed",
    errno.EROFS: "disk_read_only",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EMFILE: "too_many_open_files",
    errno.ENFILE: "too_many_open_files",
    errno.ENOMEM: "memory_exhausted",
    errno.EAGAIN: "too_many_processes",
}


def command_that_meets(raising: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`gatewright schema list`, in whose way the statement ``raising`` lies."""
    text = (
        f"import sys\nfrom gatewright.contracts import schemas\ndef fail():\n    {raising}\nschemas.names = fail\n"
        f"sys.argv = ['gatewright', 'schema', 'list', *{words!r}]\nfrom gatewright.app.cli.main import main\nmain()"
    )
    environment = {"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )


@pytest.mark.parametrize("number", sorted(HOST), ids=errno.errorcode.get)
def test_each_host_error_has_its_own_code_and_next_step(number: int) -> None:
    known = as_known(OSError(number, os.strerror(number), "/some/where"))
    assert isinstance(known, GatewrightError)
    assert known.reason == HOST[number]
    assert exit_of_error(known) == Exit.INFRASTRUCTURE
    assert known.message.startswith(f"/some/where: {os.strerror(number)}; ")


@pytest.mark.parametrize("name", series(["ENOSPC", "EIO", "EACCES", "EROFS", "EMFILE"], "EACCES"))
def test_a_host_failure_ends_a_command_with_one_line(name: str, tmp_path: Path) -> None:
    number = getattr(errno, name)
    done = command_that_meets(f"raise OSError({number}, 'x', '/some/where')", tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: /some/where: ")
    assert done.stderr.endswith(f" [{HOST[number]}]\n")
    assert "defect" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_host_is_a_document_for_programs(tmp_path: Path) -> None:
    done = command_that_meets(f"raise OSError({errno.ENOSPC}, 'x', '/some/where')", tmp_path, "--json")
    assert done.returncode == 3
    assert '"code":"disk_full"' in done.stdout


def test_an_error_outside_of_every_command_is_named_too(tmp_path: Path) -> None:
    text = (
        "import errno, sys\nfrom gatewright.app.cli import main\n"
        "main._report_defect(OSError, OSError(errno.ENOSPC, 'x', '/some/where'), None)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    assert done.stderr.endswith("[disk_full]\n")


def test_a_defect_is_reported_although_no_folder_takes_its_trace(tmp_path: Path) -> None:
    text = (
        "import os, sys, tempfile\nfrom gatewright.app.cli import main\n"
        "def full(**_): raise OSError(28, 'No space left on device')\ntempfile.mkstemp = full\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    main._report_defect(*sys.exc_info())"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    assert "a defect in gatewright: ZeroDivisionError" in done.stderr
    assert "1 / 0" in done.stderr or "in <module>" in done.stderr


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    done = command_that_meets("import bubblewrap_bin_that_is_absent", tmp_path)
    assert done.returncode == 3
    assert "pip install '/path/to/gatewright[" in done.stderr
    assert done.stderr.endswith("[package_missing]\n")
    known = as_known(ModuleNotFoundError("No module named 'cel_expr_python'", name="cel_expr_python"))
    assert known is not None
    assert "gatewright[gatekeeper]" in known.message


def test_a_module_of_our_own_that_is_missing_is_a_defect() -> None:
    assert as_known(ModuleNotFoundError("No module named 'gatewright.services.pm'", name="gatewright.services.pm")) is None


@pytest.mark.long
def test_a_document_that_is_nested_too_deeply_is_bad_input(tmp_path: Path) -> None:
    for number, deep in enumerate((b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000)):
        file = tmp_path / f"deep-{number}.json"
        file.write_bytes(deep)
        for command in (("submit", str(file)), ("schema", "validate", str(file)), ("check", "--contract", str(file))):
            done = subprocess.run(
                [sys.executable, "-m", "gatewright.app.cli.main", *command],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "GATEWRIGHT_HOME": str(tmp_path / "home")},
            )
            assert done.returncode == 2, (command, done.stderr)
            assert "defect" not in done.stderr


@pytest.mark.parametrize("words", [("show",), ("hooks", "status"), ("doctor",)])
def test_a_folder_that_is_gone_is_bad_input(words: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        done = invoke(words)
    assert done.returncode == 2, done.stderr
    assert "the folder in which this was started is gone" in done.stderr


def test_a_name_that_cannot_be_used_is_bad_input() -> None:
    known = as_known(OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "a" * 300))
    assert known is not None
    assert (known.reason, exit_of_error(known)) == ("path_unusable", Exit.INPUT)
