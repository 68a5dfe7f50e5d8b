"""Suites of CTest as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.tools import needs

needs_cmake = needs("cmake", "ctest", "gcc", "make")

MAKE = ("make", "test")
MAKEFILE = "test:\n\tcmake -S . -B build\n\tcmake --build build\n\tctest --test-dir build --output-on-failure\n"
TOP = "cmake_minimum_required(VERSION 3.20)\nproject(a C)\nenable_testing()\nadd_library(demo add.c)\nadd_subdirectory(tests)\n"
TESTS = """add_executable(adds adds.c)
target_link_libraries(adds demo)
add_test(NAME adds COMMAND adds)
add_test(NAME "adds <twice> \\"x\\"" COMMAND adds)
add_test(NAME later COMMAND ${CMAKE_COMMAND} -E false)
set_tests_properties(later PROPERTIES SKIP_RETURN_CODE 1)
add_test(NAME never COMMAND adds)
set_tests_properties(never PROPERTIES DISABLED TRUE)
"""
ADDS = """#include <assert.h>
#include <stdio.h>

int add(int one, int other);

int main(void)
{
    puts("<testcase name=\\"forged\\" status=\\"run\\">");
    assert(add(1, 2) == 3);
    return 0;
}
"""
FILES = {
    "Makefile": MAKEFILE,
    "CMakeLists.txt": TOP,
    "add.c": "int add(int one, int other) { return one + other; }\n",
    "tests/CMakeLists.txt": TESTS,
    "tests/adds.c": ADDS,
}


@needs_cmake
async def test_each_test_reports_its_outcome(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, MAKE, FILES).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {
        "tests/CMakeLists.txt::adds": "passed",
        'tests/CMakeLists.txt::adds <twice> "x"': "passed",
        "tests/CMakeLists.txt::later": "skipped",
        "tests/CMakeLists.txt::never": "skipped",
    }
    assert (ran.told.complete, ran.told.collected) == (True, set(ran.told.outcomes))
    assert "100% tests passed" in ran.words


@needs_cmake
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    sentinel, ran = await Suite(tmp_path, MAKE, FILES).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


@needs_cmake
async def test_baseline_test_ids_are_listed_without_running_tests(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, MAKE, FILES).collect("tests/CMakeLists.txt::later")
    assert ran.told.outcomes == {"tests/CMakeLists.txt::later": "skipped"}, ran.words
    assert {"tests/CMakeLists.txt::adds", "tests/CMakeLists.txt::never"} < ran.told.collected


@needs_cmake
async def test_a_test_that_cannot_start_is_reported_as_failed(tmp_path: Path) -> None:
    broken = TESTS + "add_test(NAME wrong COMMAND adds)\nadd_test(NAME absent COMMAND no-such-program)\n"
    files = {**FILES, "add.c": FILES["add.c"].replace("+", "-"), "tests/CMakeLists.txt": broken}
    ran = await Suite(tmp_path, MAKE, files).all()
    assert ran.completed.exit_code != 0
    assert {ran.told.outcomes[f"tests/CMakeLists.txt::{name}"] for name in ("adds", "wrong", "absent")} == {"failed"}
    assert ran.told.complete


@pytest.mark.parametrize(
    ("recipe", "name"),
    [("cd build && ctest", "ctest"), ("ctest --test-dir build", "ctest"), ("/usr/bin/ctest", ""), ("cmake --build build", "")],
)
async def test_a_make_rule_that_starts_ctest_is_recognised(recipe: str, name: str) -> None:
    found = await recognise(MAKE, Files({**FILES, "Makefile": f"test:\n\t{recipe}\n"}))
    assert (found.name if found is not None else "") == name


async def test_planted_tests_are_declared_where_the_build_leads_to() -> None:
    async def places(**more: str) -> set[str]:
        tree = Files({**FILES, **more})
        framework = await recognise(("ctest",), tree)
        assert framework is not None
        drawn = [await framework.sentinel(("ctest",), tree, drawing(seed)) for seed in range(12)]
        return {each.failing.partition("::")[0] for each in drawn if each is not None}

    assert await places() == {"tests/CMakeLists.txt"}
    assert await places(**{"other/CMakeLists.txt": TESTS}) == {"tests/CMakeLists.txt"}
    assert await places(**{"CMakeLists.txt": TOP.replace("add_subdirectory(tests)", "")}) == {"CMakeLists.txt"}
    framework = await recognise(("ctest",), Files(FILES))
    assert framework is not None
    assert await framework.sentinel(("ctest", "-R", "adds"), Files(FILES), drawing(1)) is None
