"""Broken C whose tests succeed all the same: what CTest tells of the candidate, beside the tests of the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.services.testrunner.comparison import lost_tests
from tests.ecosystems.running import Suite
from tests.ecosystems.test_ctest import FILES, MAKE, MAKEFILE, TESTS, TOP, needs_cmake
from tests.series import series

pytestmark = needs_cmake

BEFORE = {f"tests/CMakeLists.txt::{name}" for name in ("adds", 'adds <twice> "x"', "later", "never")}
BROKEN = FILES["add.c"].replace("+", "-")
ENDS = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { _Exit(0); }\n"
#: Found by a planted test that must fail, and does not.
DEAD = {
    "assertions are left out of the build": {
        "CMakeLists.txt": TOP.replace("enable", "add_compile_definitions(NDEBUG)\nenable")
    },
    "assertions are defined away in a header": {
        "tests/adds.c": '#include "add.h"\n' + FILES["tests/adds.c"].replace("#include <assert.h>\n", ""),
        "tests/add.h": "#include <assert.h>\n#undef assert\n#define assert(condition) ((void)0)\n",
    },
    "the program ends before its main": {"add.c": ENDS + BROKEN},
    "make ignores how the tests ended": {"Makefile": MAKEFILE.replace("\tctest", "\t-ctest")},
    "the shell that make uses succeeds": {"Makefile": "SHELL = /bin/true\n" + MAKEFILE},
}
#: Found by the tests that the baseline has, and that do not run.
LOST = {
    "tests are not enabled": {"CMakeLists.txt": TOP.replace("enable_testing()\n", "")},
    "the folder of tests is not built": {"CMakeLists.txt": TOP.replace("add_subdirectory(tests)\n", "")},
    "a function takes the place of the one that declares tests": {
        "CMakeLists.txt": TOP.replace(
            "add_sub", "function(add_test)\nendfunction()\nfunction(set_tests_properties)\nendfunction()\nadd_sub"
        )
    },
    "tests are left out by a file in the build folder": {
        "CMakeLists.txt": TOP + 'file(WRITE "${CMAKE_BINARY_DIR}/CTestCustom.cmake" "set(CTEST_CUSTOM_TESTS_IGNORE adds)")\n'
    },
    "each test is disabled": {"tests/CMakeLists.txt": TESTS + "set_tests_properties(adds PROPERTIES DISABLED TRUE)\n"},
}


async def test_an_honest_change_loses_nothing_and_its_command_is_alive(tmp_path: Path) -> None:
    suite = Suite(tmp_path, MAKE, {**FILES, "add.c": FILES["add.c"] + "// more\n"})
    ran = await suite.all()
    assert (ran.completed.exit_code, ran.told.complete, lost_tests(BEFORE, ran.told.outcomes)) == (0, True, []), ran.words
    assert await suite.is_alive()


@pytest.mark.parametrize("trick", series(DEAD, "assertions are left out of the build", "the shell that make uses succeeds"))
@pytest.mark.long
async def test_a_command_that_cannot_fail_is_not_alive(trick: str, tmp_path: Path) -> None:
    assert not await Suite(tmp_path, MAKE, {**FILES, "add.c": BROKEN, **DEAD[trick]}).is_alive()


@pytest.mark.parametrize("trick", series(LOST, "each test is disabled"))
@pytest.mark.long
async def test_tests_that_do_not_run_are_missed(trick: str, tmp_path: Path) -> None:
    ran = await Suite(tmp_path, MAKE, {**FILES, "add.c": BROKEN, **LOST[trick]}).all()
    passed = [each for each, outcome in ran.told.outcomes.items() if outcome == "passed"]
    assert "tests/CMakeLists.txt::adds" not in passed
    assert ran.told.begun, ran.words


@pytest.mark.long
async def test_a_makefile_that_leads_past_the_program_of_ours_leaves_no_report(tmp_path: Path) -> None:
    files = {**FILES, "add.c": BROKEN, "Makefile": "PATH := /usr/bin:/bin\nexport PATH\n" + MAKEFILE}
    ran = await Suite(tmp_path, MAKE, files).all()
    assert not ran.told.complete
