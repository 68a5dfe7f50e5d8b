"""Broken Rust whose tests succeed all the same: what cargo tells of the candidate, beside the tests of the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from gatewright.ecosystems.records import RunnerReport
from gatewright.services.testrunner.comparison import lost_tests
from tests.ecosystems.running import Ran, Suite
from tests.ecosystems.test_rust import CARGO, MANIFEST, TOOLCHAIN, needs_cargo
from tests.series import series

pytestmark = [needs_cargo, pytest.mark.asyncio(loop_scope="module")]

LIBRARY = """pub fn add(one: i32, other: i32) -> i32 {
    one + other
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}
"""
BROKEN = LIBRARY.replace("one + other", "one - other")
OUTSIDE = "#[test]\nfn adds_from_outside() {\n    assert_eq!(demo::add(2, 2), 4);\n}\n"
FILES = {"Cargo.toml": MANIFEST, "src/lib.rs": LIBRARY, "tests/outside.rs": OUTSIDE}
IGNORED = {
    "src/lib.rs": BROKEN.replace("#[test]", "#[test]\n    #[ignore]"),
    "tests/outside.rs": OUTSIDE.replace("#[test]", "#[test]\n#[ignore]"),
}
HARNESS = '\n[lib]\ntest = false\n\n[[test]]\nname = "outside"\nharness = false\n'
TRICKS: dict[str, dict[str, str | None]] = {
    "every test is ignored": dict(IGNORED),
    "a harness of its own that does nothing": {"Cargo.toml": MANIFEST + HARNESS, "tests/outside.rs": "fn main() {}\n"},
    "tests are not built": {
        "Cargo.toml": MANIFEST.replace("[package]", "[package]\nautotests = false") + "\n[lib]\ntest = false\n"
    },
    "tests are left out by a condition": {
        "src/lib.rs": BROKEN.replace("#[cfg(test)]", "#[cfg(any())]"),
        "tests/outside.rs": "#![cfg(any())]\n" + OUTSIDE,
    },
    "tests are deleted": {"src/lib.rs": BROKEN.partition("#[cfg(test)]")[0], "tests/outside.rs": None},
    "a test file is put where cargo does not look": {
        "src/lib.rs": BROKEN.partition("#[cfg(test)]")[0],
        "tests/outside.rs": None,
        "tests/kept/outside.rs": OUTSIDE,
    },
    "the process ends in the code under test": {
        "src/lib.rs": LIBRARY.replace("one + other", "let _ = (one, other);\n    std::process::exit(0)"),
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def before(tmp_path_factory: pytest.TempPathFactory) -> RunnerReport:
    """What the baseline tells."""
    ran = await Suite(tmp_path_factory.mktemp("before"), CARGO, FILES, TOOLCHAIN).collect()
    assert ran.told.complete, ran.words
    return ran.told


async def changed(folder: Path, changes: dict[str, str | None]) -> Ran:
    files = {path: text for path, text in {**FILES, **changes}.items() if text is not None}
    return await Suite(folder, CARGO, files, TOOLCHAIN).all()


async def test_an_honest_change_loses_nothing(before: RunnerReport, tmp_path: Path) -> None:
    ran = await changed(tmp_path, {"src/lib.rs": LIBRARY + "// more\n"})
    assert before.collected == {"src/lib.rs::tests::adds", "tests/outside.rs::adds_from_outside"}
    assert (ran.completed.exit_code, ran.told.complete, lost_tests(before.collected, ran.told.outcomes)) == (0, True, [])


@pytest.mark.parametrize("trick", series(TRICKS, "every test is ignored", "tests are not built"))
async def test_a_successful_cargo_run_with_lost_tests_is_not_green(before: RunnerReport, trick: str, tmp_path: Path) -> None:
    ran = await changed(tmp_path, TRICKS[trick])
    assert ran.completed.exit_code == 0, ran.words
    outcomes = ran.told.outcomes
    lost = lost_tests(before.collected, outcomes)
    assert lost or "failed" in outcomes.values() or set(outcomes.values()) == {"skipped"}, outcomes
