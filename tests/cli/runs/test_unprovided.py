"""A generated module that git has not: a failed run names the file and the option."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from gatewright.app.cli.runs.result import closing_words, missed_modules, provide_options, result_of, unprovided_files
from gatewright.run.state import RunFailure
from gatewright.view.run_view import OutputTail, RunView
from tests.cli.runs.test_showing_runs import view_after
from tests.gatekeeper.simulated_run import Script


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for path in ("src/pkg/__init__.py", "src/pkg/kept.py", "src/pkg/deep/__init__.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_an_untracked_module_of_the_own_package_is_named(repository: Path) -> None:
    lines = (
        "E   ModuleNotFoundError: No module named 'pkg._version'",
        "E   ModuleNotFoundError: No module named 'pkg._version'",
        "E   ModuleNotFoundError: No module named 'pkg.deep.made'; 'pkg.deep' is a package",
        "E   ModuleNotFoundError: No module named 'pkg.kept'",
        "E   ModuleNotFoundError: No module named 'elsewhere.part'",
        "E   ModuleNotFoundError: No module named 'requests'",
    )
    missed = missed_modules([OutputTail("test-1", lines, cut=False)])
    assert missed == ("pkg._version", "pkg.deep.made", "pkg.kept", "elsewhere.part")
    assert unprovided_files(str(repository), missed) == ("src/pkg/_version.py", "src/pkg/deep/made.py")
    assert unprovided_files("https://elsewhere.example/pkg", missed) == ()


def failed_tests() -> RunView:
    """A run whose tests failed."""
    view = view_after(Script(refused_shard=1))
    return replace(view, run=structs.replace(view.run, failure=RunFailure("tests_failed", "1 failed")), gates=())


def test_the_closing_words_name_the_file_and_the_option() -> None:
    view = replace(failed_tests(), unprovided=("src/pkg/_version.py",))
    (line,) = [line for line in closing_words(view) if line.startswith("  missing")]
    assert line.endswith("--provide src/pkg/_version.py")


def test_the_command_to_retry_with_provides_what_the_checkout_has(repository: Path) -> None:
    (repository / "src/pkg/_version.py").write_text("version = '1'\n")
    missed = ("src/pkg/_version.py", "src/pkg/deep/made.py")
    provide = provide_options(str(repository), missed)
    assert provide == ("--provide", "src/pkg/_version.py")

    view = replace(failed_tests(), unprovided=missed, provide=provide)
    assert result_of(view).retry_with == provide
