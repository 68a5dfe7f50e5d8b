"""Broken Java whose build may succeed all the same, by Maven and Gradle: through the real test runner and the tests gate."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from gatewright.contracts.vocabulary import TimeoutRetry
from tests.ecosystems.suites import Suite, proof_of
from tests.ecosystems.test_gradle import COMMAND as GRADLE
from tests.ecosystems.test_gradle import FILES as GRADLE_FILES
from tests.ecosystems.test_gradle import needs_junit
from tests.ecosystems.test_java import COMMAND as MAVEN
from tests.ecosystems.test_java import FILES as MAVEN_FILES
from tests.ecosystems.test_java import needs_maven
from tests.ecosystems.tools import needs

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

SOURCE, TEST = "src/main/java/demo/Add.java", "src/test/java/demo/AddTest.java"
BROKEN = GRADLE_FILES[SOURCE].replace("one + other", "one - other")
IGNORED = GRADLE_FILES[TEST].replace("    @Test\n    public void adds", "    @Ignore\n    @Test\n    public void adds")
POM, BUILD = MAVEN_FILES["pom.xml"], GRADLE_FILES["build.gradle"]
BOTH: Mapping[str, Mapping[str, str | None]] = {
    "every test is ignored": {TEST: IGNORED},
    "the tests are deleted": {TEST: None},
    "the tests are renamed so that nothing runs them": {TEST: None, "src/test/text/AddTest.java": GRADLE_FILES[TEST]},
    "the process ends in the code under test": {SOURCE: BROKEN.replace("return", "if (one > 0) System.exit(0); return")},
}
OWN: Mapping[str, Mapping[str, Mapping[str, str | None]]] = {
    "maven": {
        "failures are ignored": {
            "pom.xml": POM.replace("<properties>", "<properties><maven.test.failure.ignore>true</maven.test.failure.ignore>")
        },
        "tests are skipped": {"pom.xml": POM.replace("<properties>", "<properties><skipTests>true</skipTests>")},
    },
    "gradle": {
        "failures are ignored": {"build.gradle": BUILD + "test.ignoreFailures = true\n"},
        "tests are switched off": {"build.gradle": BUILD + "test.enabled = false\n"},
        "tests are left out": {"build.gradle": BUILD + "test.exclude '**/AddTest*'\n"},
        "another program of Java": {"build.gradle": BUILD + "test.executable = '/bin/true'\n"},
    },
}
#: A build starts several machines of Java.
PATIENCE = TimeoutRetry(timeout_sec=600, max_retries=0, retry_backoff_sec=0)
COMMANDS = {"maven": shlex.join(MAVEN), "gradle": shlex.join(GRADLE)}
MARKS = {"maven": [needs_maven], "gradle": [needs("gradle", "java"), needs_junit]}


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Suite]:
    """One for all tricks of a tool: what its test runner found out about the baseline it remembers."""
    files = {"maven": MAVEN_FILES, "gradle": GRADLE_FILES}
    return {
        name: Suite(tmp_path_factory.mktemp(name), {path: text.encode() for path, text in each.items()})
        for name, each in files.items()
    }


@pytest.mark.parametrize("tool", [pytest.param(name, marks=MARKS[name]) for name in COMMANDS])
async def test_an_honest_change_is_proved(tool: str, suites: Mapping[str, Suite]) -> None:
    suite = suites[tool]
    report = await suite.tested({SOURCE: GRADLE_FILES[SOURCE].encode() + b"// more\n"}, COMMANDS[tool], timeout_retry=PATIENCE)
    assert suite.judged(report, "proved") == (), suite.printed(report)
    proof = proof_of(report)
    assert (proof.framework, proof.collected_before, proof.lost_count, proof.complete) == (tool, 2, 0, True)


@pytest.mark.parametrize(
    ("tool", "trick"),
    [pytest.param(tool, trick, id=f"{tool}: {trick}", marks=MARKS[tool]) for tool in COMMANDS for trick in (*BOTH, *OWN[tool])],
)
async def test_broken_source_does_not_pass_the_tests_gate(tool: str, trick: str, suites: Mapping[str, Suite]) -> None:
    suite = suites[tool]
    changes = {SOURCE: BROKEN, **{**BOTH, **OWN[tool]}[trick]}
    encoded = {path: text.encode() if text is not None else None for path, text in changes.items()}
    report = await suite.tested(encoded, COMMANDS[tool], timeout_retry=PATIENCE)
    assert not report.commands[-1].timed_out
    assert suite.judged(report, "recorded"), suite.printed(report)
