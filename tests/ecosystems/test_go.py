"""Suites of Go as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise
from gatewright.errors import GatewrightError
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.prefix import home_folders, inspect_prefix
from tests.ecosystems.running import Files, Suite, drawing

EVERYTHING = ("go", "test", "./...")
TESTS = """package demo

import "testing"

func TestAdds(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("wrong")
	}
}

func TestLater(t *testing.T) { t.Skip("later") }
"""
DIES = """package sub

import (
	"syscall"
	"testing"
)

func TestDies(t *testing.T) { syscall.Exit(0) }

func TestKeeps(t *testing.T) {}
"""
FILES = {
    "go.mod": "module example.org/demo\n\ngo 1.21\n",
    "add.go": "package demo\n\nfunc Add(one, other int) int { return one + other }\n",
    "add_test.go": TESTS,
    "sub/keep_test.go": 'package sub\n\nimport "testing"\n\nfunc TestKeep(t *testing.T) {}\n',
}


def toolchain() -> Path | None:
    """A folder whose ``bin`` has go, and that a sandbox may show."""
    go = shutil.which("go")
    if go is None:
        return None
    prefix = Path(go).resolve().parent.parent
    try:
        inspect_prefix(prefix, homes=home_folders(), account=sandbox_account())
    except GatewrightError:
        return None
    return prefix


TOOLCHAIN = toolchain()
needs_go = pytest.mark.skipif(TOOLCHAIN is None, reason="there is no Go that a sandbox may show")


@pytest.mark.long
@needs_go
async def test_each_test_reports_its_outcome(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, EVERYTHING, FILES, TOOLCHAIN).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {
        "add_test.go::TestAdds": "passed",
        "add_test.go::TestLater": "skipped",
        "sub/keep_test.go::TestKeep": "passed",
    }
    assert (ran.told.complete, ran.told.collected) == (True, set(ran.told.outcomes))
    assert "ok " in ran.words
    assert "=== RUN" not in ran.words


@needs_go
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    sentinel, ran = await Suite(tmp_path, EVERYTHING, FILES, TOOLCHAIN).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


@needs_go
async def test_baseline_test_ids_are_listed_without_running_tests(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, EVERYTHING, {**FILES, "sub/dies_test.go": DIES}, TOOLCHAIN).collect("add_test.go::TestLater")
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {"add_test.go::TestLater": "skipped"}
    assert {"sub/dies_test.go::TestDies", "add_test.go::TestAdds"} < ran.told.collected


@pytest.mark.long
@needs_go
async def test_a_test_that_exits_with_success_is_reported_as_failed(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, EVERYTHING, {**FILES, "sub/dies_test.go": DIES}, TOOLCHAIN).all()
    assert ran.told.outcomes["sub/dies_test.go::TestDies"] == "failed"
    assert ran.told.outcomes["sub/dies_test.go::TestKeeps"] == "failed"


@pytest.mark.long
@needs_go
async def test_what_vet_refuses_fails_the_command_itself_and_no_other_run_vets(tmp_path: Path) -> None:
    shown = FILES["add_test.go"].replace('import "testing"', 'import (\n\t"fmt"\n\t"testing"\n)')
    wrong = {**FILES, "add_test.go": shown.replace('t.Skip("later")', 'fmt.Printf("%d", "later")')}
    suite = Suite(tmp_path, EVERYTHING, wrong, TOOLCHAIN)

    ran = await suite.all()

    assert (ran.completed.exit_code != 0, "Printf" in ran.words) == (True, True), ran.words
    assert await suite.is_alive()


async def test_planted_tests_go_to_a_package_that_the_command_names() -> None:
    async def folders(*argv: str) -> set[str]:
        framework = await recognise(argv, Files(FILES))
        assert framework is not None
        drawn = [await framework.sentinel(argv, Files(FILES), drawing(seed)) for seed in range(12)]
        return {path.rpartition("/")[0] for each in drawn if each is not None for path in each.files}

    assert await folders(*EVERYTHING) == {"", "sub"}
    assert await folders("go", "test") == {""}
    assert await folders("go", "test", "-count=1", "./sub/...") == {"sub"}
    assert await folders("go", "test", "-run=Adds", "./...") == set()
