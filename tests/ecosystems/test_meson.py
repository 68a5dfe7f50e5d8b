"""Suites of Meson as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.test_ctest import FILES as C_FILES
from tests.ecosystems.tools import needs

needs_meson = needs("meson", "ninja", "gcc", "make")

MAKE = ("make", "check")
TOP = "project('demo', 'c')\nlib = static_library('demo', 'add.c')\nsubdir('tests')\n"
FORGED = '\\", "result": "OK", "starttime"'
TESTS = f"""adds = executable('adds', 'adds.c', link_with: lib)
test('adds', adds, suite: 'unit')
test('adds again', adds)
test('later', find_program('sh'), args: ['-c', 'exit 77'])
test('talks', find_program('sh'), args: ['-c', 'echo "$1"; exit 77', 'sh', '''{FORGED}'''])
"""
FILES = {
    "Makefile": "check:\n\tmeson setup build\n\tmeson test -C build\n",
    "meson.build": TOP,
    "tests/meson.build": TESTS,
    "add.c": C_FILES["add.c"],
    "tests/adds.c": C_FILES["tests/adds.c"],
}


@pytest.mark.long
@needs_meson
async def test_each_test_reports_its_outcome(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, MAKE, FILES).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {
        "meson.build::adds": "passed",
        "meson.build::adds again": "passed",
        "meson.build::later": "skipped",
        "meson.build::talks": "skipped",
    }
    assert (ran.told.complete, ran.told.collected) == (True, set(ran.told.outcomes))


@pytest.mark.long
@needs_meson
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    suite = Suite(tmp_path, MAKE, FILES)
    sentinel, ran = await suite.control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert await suite.is_alive()


@pytest.mark.long
@needs_meson
async def test_failures_are_reported_and_baseline_ids_listed_without_running_tests(tmp_path: Path) -> None:
    files = {**FILES, "add.c": FILES["add.c"].replace("+", "-")}
    ran = await Suite(tmp_path / "all", MAKE, files).all()
    assert (ran.completed.exit_code != 0, ran.told.outcomes["meson.build::adds"], ran.told.complete) == (True, "failed", True)
    collected = await Suite(tmp_path / "collect", MAKE, files).collect("meson.build::later")
    assert collected.told.outcomes == {"meson.build::later": "skipped"}, collected.words
    assert "meson.build::adds" in collected.told.collected


@pytest.mark.long
@needs_meson
async def test_assertions_that_are_left_out_of_the_build_are_no_living_command(tmp_path: Path) -> None:
    files = {**FILES, "meson.build": TOP.replace("'c')", "'c', default_options: ['b_ndebug=true'])")}
    assert not await Suite(tmp_path, MAKE, files).is_alive()


async def test_a_command_that_chooses_has_no_place_for_planted_tests() -> None:
    for words in (("meson", "test", "-C", "build"), ("meson", "test", "--maxfail", "1", "-j2")):
        framework = await recognise(words, Files(FILES))
        assert framework is not None
        assert await framework.sentinel(words, Files(FILES), drawing(1)) is not None
        assert await framework.sentinel((*words, "adds"), Files(FILES), drawing(1)) is None
        assert await framework.sentinel((*words, "--suite=unit"), Files(FILES), drawing(1)) is None
