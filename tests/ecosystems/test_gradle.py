"""Suites of Gradle as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.test_java import FILES as MAVEN_FILES
from tests.ecosystems.test_java import TEST
from tests.ecosystems.tools import needs

#: Where Debian keeps what Gradle needs for a build without a network.
_REPOSITORY = Path("/usr/share/maven-repo")
_HAS_JUNIT = (_REPOSITORY / "junit/junit/4.x").is_dir()
needs_junit = pytest.mark.skipif(not _HAS_JUNIT, reason="the system has no JUnit for builds without a network (junit4)")

COMMAND = ("gradle", "--offline", "--no-daemon", "test")
BUILD = f"""apply plugin: 'java'
repositories {{ maven {{ url '{_REPOSITORY}' }} }}
dependencies {{ testCompile 'junit:junit:4.x' }}
"""
ADD = "src/test/java/demo/AddTest.java"
FILES = {
    "settings.gradle": "rootProject.name = 'demo'\n",
    "build.gradle": BUILD,
    **{path: text for path, text in MAVEN_FILES.items() if path.startswith("src/")},
}
BROKEN = FILES["src/main/java/demo/Add.java"].replace("one + other", "one - other")


@pytest.mark.long
@needs("gradle", "java")
@needs_junit
class TestSuitesOfGradle:
    async def test_each_test_reports_its_outcome(self, tmp_path: Path) -> None:
        ran = await Suite(tmp_path, COMMAND, FILES).all()
        assert ran.completed.exit_code == 0, ran.words
        assert ran.told.outcomes == {f"{ADD}::AddTest.adds": "passed", f"{ADD}::AddTest.later": "skipped"}, ran.words
        assert (ran.told.complete, ran.told.ends, ran.told.framework) == (True, [0], "gradle")

    async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(self, tmp_path: Path) -> None:
        sentinel, ran = await Suite(tmp_path, COMMAND, FILES).control()
        assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
        assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)

    async def test_ignored_failures_are_reported(self, tmp_path: Path) -> None:
        files = {**FILES, "src/main/java/demo/Add.java": BROKEN, "build.gradle": BUILD + "test.ignoreFailures = true\n"}
        ran = await Suite(tmp_path, COMMAND, files).all()
        assert ran.completed.exit_code == 0, ran.words
        assert ran.told.outcomes[f"{ADD}::AddTest.adds"] == "failed"

    async def test_a_test_that_exits_with_success_is_not_passed(self, tmp_path: Path) -> None:
        leaves = FILES["src/main/java/demo/Add.java"].replace("return one + other", "System.exit(0); return 0")
        ran = await Suite(tmp_path, COMMAND, {**FILES, "src/main/java/demo/Add.java": leaves}).all()
        assert "passed" not in ran.told.outcomes.values(), ran.words

    async def test_tests_that_are_disabled_are_not_reported(self, tmp_path: Path) -> None:
        files = {**FILES, "src/main/java/demo/Add.java": BROKEN, "build.gradle": BUILD + "test.enabled = false\n"}
        ran = await Suite(tmp_path, COMMAND, files).all()
        assert (ran.completed.exit_code, ran.told.outcomes, ran.told.complete) == (0, {}, True), ran.words


async def test_planted_tests_go_to_a_project_that_the_settings_include() -> None:
    tests = {f"{name}/{ADD}": TEST for name in ("one", "two/inner", "other")}
    files = Files({**tests, "settings.gradle": "rootProject.name = 'all'\ninclude 'one',\n    ':two:inner'\n"})
    framework = await recognise(COMMAND, files)
    assert framework is not None
    assert framework.name == "gradle"
    drawn = [await framework.sentinel(COMMAND, files, drawing(seed)) for seed in range(12)]
    assert {path.partition("/src/")[0] for each in drawn if each is not None for path in each.files} == {"one", "two/inner"}
    assert await framework.sentinel((*COMMAND, "--tests", "demo.AddTest"), files, drawing(1)) is None


async def test_a_wrapper_that_fetches_gradle_is_unproven() -> None:
    words = ("./gradlew", "test")
    assert await recognise(words, Files(FILES)) is None
    assert "name gradle" in await why_unproven(words, Files(FILES))
