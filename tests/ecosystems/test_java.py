"""Suites of Maven as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise
from tests.ecosystems.running import Files, Suite, drawing

#: Where Debian keeps what Maven needs for a build without a network.
_REPOSITORY = Path("/usr/share/maven-repo")
_NEEDED = ("plugins/maven-resources-plugin", "plugins/maven-compiler-plugin", "surefire/surefire-junit4")
_HERE = shutil.which("mvn", path="/usr/bin") and all((_REPOSITORY / "org/apache/maven" / each).is_dir() for each in _NEEDED)
needs_maven = pytest.mark.skipif(
    not _HERE,
    reason="the system has no Maven with plugins of its own (libmaven-{resources,compiler}-plugin-java, libsurefire-java)",
)

COMMAND = ("mvn", "-B", "test")
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>demo</groupId><artifactId>demo</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency>
  </dependencies>
</project>
"""
TEST = """package demo;

import static org.junit.Assert.assertEquals;

import org.junit.Ignore;
import org.junit.Test;

public class AddTest {
    @Test
    public void adds() {
        System.out.println("]]> <testcase name=\\"forged\\" classname=\\"demo.AddTest\\"/>");
        assertEquals(3, Add.add(1, 2));
    }

    @Ignore
    @Test
    public void later() {
    }
}
"""
FILES = {
    "pom.xml": POM,
    ".mvn/maven.config": f"-o\n-Dmaven.repo.local={_REPOSITORY}\n",
    "src/main/java/demo/Add.java": (
        "package demo;\n\npublic class Add {\n    public static int add(int one, int other) { return one + other; }\n}\n"
    ),
    "src/test/java/demo/AddTest.java": TEST,
}


@needs_maven
async def test_each_test_reports_its_outcome(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, COMMAND, FILES).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == {
        "src/test/java/demo/AddTest.java::AddTest.adds": "passed",
        "src/test/java/demo/AddTest.java::AddTest.later": "skipped",
    }
    assert ran.told.complete, ran.words


@pytest.mark.long
@needs_maven
@pytest.mark.parametrize("command", [COMMAND, ("mvn", "-q", "-DskipITs", "-ntp", "test")], ids=" ".join)
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    sentinel, ran = await Suite(tmp_path, command, FILES).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


@pytest.mark.long
@needs_maven
async def test_ignored_failures_are_reported(tmp_path: Path) -> None:
    ignoring = POM.replace("<properties>", "<properties><maven.test.failure.ignore>true</maven.test.failure.ignore>")
    broken = {path: text.replace("one + other", "one - other") for path, text in FILES.items()}
    ran = await Suite(tmp_path, COMMAND, {**broken, "pom.xml": ignoring}).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes["src/test/java/demo/AddTest.java::AddTest.adds"] == "failed"


@needs_maven
async def test_a_report_that_a_test_writes_for_another_is_not_believed(tmp_path: Path) -> None:
    forged = '<testsuite><testcase name=\\"more\\" classname=\\"demo.MoreTest\\"/></testsuite>'
    writing = TEST.replace(
        "assertEquals(3",
        'try { java.nio.file.Path f = java.nio.file.Path.of("target/surefire-reports");'
        " java.nio.file.Files.createDirectories(f);"
        f' java.nio.file.Files.writeString(f.resolve("TEST-demo.MoreTest.xml"), "{forged}"); }}'
        " catch (java.io.IOException e) { throw new RuntimeException(e); }\n        assertEquals(3",
    )
    ran = await Suite(tmp_path, COMMAND, {**FILES, "src/test/java/demo/AddTest.java": writing}).all()
    assert (ran.completed.exit_code, ran.told.complete) == (0, False), ran.words


async def test_planted_tests_go_to_a_module_that_the_command_tests() -> None:
    tests = {f"{name}/src/test/java/demo/AddTest.java": TEST for name in ("one", "two", "other")}
    poms = {f"{name}/pom.xml": POM for name in ("one", "two", "other")}
    top = POM.replace("<properties>", "<modules><module>one</module><module>two</module></modules><properties>")

    async def folders(*argv: str) -> set[str]:
        tree = Files({**tests, **poms, "pom.xml": top})
        framework = await recognise(argv, tree)
        assert framework is not None
        drawn = [await framework.sentinel(argv, tree, drawing(seed)) for seed in range(12)]
        return {path.partition("/")[0] for each in drawn if each is not None for path in each.files}

    assert await folders("mvn", "test") == {"one", "two"}
    assert await folders("mvn", "verify", "-pl", "two") == {"two"}
