"""What earlier commands of a contract build is there wherever a later one runs: in the control, and on the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.detection import builds
from tests.ecosystems.suites import Suite, codes, proof_of
from tests.ecosystems.test_ctest import FILES, TESTS, needs_cmake

COMMANDS = ("cmake -S . -B build", "cmake --build build", "ctest --test-dir build")
TREE = {path: text.encode() for path, text in FILES.items()}


@pytest.mark.long
@needs_cmake
async def test_a_suite_that_is_built_by_earlier_commands_is_proved(tmp_path: Path) -> None:
    suite = Suite(tmp_path, TREE)
    report = await suite.tested({"add.c": TREE["add.c"] + b"// more\n"}, *COMMANDS)
    proof = proof_of(report)
    assert (report.status, codes(suite.judged(report))) == ("PASS", []), (report.failure, suite.judged(report))
    assert (proof.framework, proof.collected_before, proof.lost_count) == ("ctest", 4, 0)


@pytest.mark.long
@needs_cmake
async def test_baseline_tests_expose_a_declared_test_that_does_nothing(tmp_path: Path) -> None:
    suite = Suite(tmp_path, TREE)
    weak = TESTS.replace("COMMAND adds)", "COMMAND ${CMAKE_COMMAND} -E true)").encode()
    changes = {"add.c": TREE["add.c"].replace(b"+", b"-"), "tests/CMakeLists.txt": weak}
    report = await suite.tested(changes, *COMMANDS)
    told = proof_of(report).baseline_tests
    assert report.status == "PASS"
    assert told is not None
    assert told.paths == ("tests/CMakeLists.txt",)
    assert "tests/CMakeLists.txt::adds" in told.failed


@pytest.mark.parametrize(
    ("command", "whether"),
    [
        ("cmake -S . -B build", True),
        ("cmake --build build", True),
        ("meson setup build", True),
        ("meson test -C build", False),
        ("python setup.py build_ext --inplace", True),
        ("cargo build", True),
        ("npm run build", True),
        ("npm run lint", False),
        ("ruff check", False),
        ("pytest", False),
    ],
)
def test_what_may_leave_something_that_tests_need(command: str, *, whether: bool) -> None:
    assert builds(tuple(command.split())) is whether
