"""Suites of cargo as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from gatewright.errors import GatewrightError
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.prefix import home_folders, inspect_prefix
from tests.ecosystems.running import Files, Suite, drawing

CARGO = ("cargo", "test")
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


def suite(folder: Path, **more: str) -> Suite:
    return Suite(folder, CARGO, {**FILES, **more}, TOOLCHAIN)


@needs_cargo
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
    assert (ran.told.complete, ran.told.ends) == (True, [0, 0, 0])
    assert "test tests::adds ... ok" in ran.words


@needs_cargo
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    sentinel, ran = await suite(tmp_path).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert ran.told.complete
    assert ran.completed.exit_code != 0
    assert "src/lib.rs::tests::adds" in ran.told.collected


@needs_cargo
async def test_the_ids_of_a_baseline_are_told_without_running_its_tests(tmp_path: Path) -> None:
    ran = await suite(tmp_path, **{"tests/dies.rs": DIES}).collect("tests/outside.rs::adds_from_outside")
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {"tests/outside.rs::adds_from_outside": "passed"}
    assert {"tests/dies.rs::adds", "tests/dies.rs::keeps", "src/lib.rs::tests::adds"} < ran.told.collected


@needs_cargo
async def test_a_test_that_ends_its_process_is_told_as_failed_though_cargo_succeeds(tmp_path: Path) -> None:
    ran = await suite(tmp_path, **{"tests/dies.rs": DIES}).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes["tests/dies.rs::adds"] == "failed"


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
