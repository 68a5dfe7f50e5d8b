"""Suites of PHPUnit as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise
from gatewright.services.testrunner.comparison import lost_tests
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.tools import needs

needs_phpunit = needs("php", "phpunit")

COMMAND = ("phpunit", "tests")
ADD = "<?php\nfunction add(int $one, int $other): int { return $one + $other; }\n"
TESTS = r"""<?php
declare(strict_types=1);
namespace Demo;

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/../src/add.php';

final class AddTest extends TestCase
{
    public function testAdds(): void
    {
        $this->assertSame(3, \add(1, 2));
    }

    /** @dataProvider rows */
    public function testRows(int $one): void
    {
        $this->assertSame($one, \add($one, 0));
    }

    public static function rows(): array
    {
        return [[1], 'a pair' => [2]];
    }

    public function testLater(): void
    {
        $this->markTestSkipped("it's ##teamcity[testFailed name='testAdds']");
    }
}
"""
FILES = {"src/add.php": ADD, "tests/AddTest.php": TESTS}
IDS = {
    r"tests/AddTest.php::Demo\AddTest::testAdds": "passed",
    r"tests/AddTest.php::Demo\AddTest::testRows[#0]": "passed",
    r'tests/AddTest.php::Demo\AddTest::testRows["a pair"]': "passed",
    r"tests/AddTest.php::Demo\AddTest::testLater": "skipped",
}


@needs_phpunit
async def test_each_test_reports_its_outcome(tmp_path: Path) -> None:
    ran = await Suite(tmp_path, COMMAND, FILES).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == IDS
    assert (ran.told.complete, ran.told.collected) == (True, set(IDS)), ran.words


@needs_phpunit
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(tmp_path: Path) -> None:
    sentinel, ran = await Suite(tmp_path, COMMAND, FILES).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


BROKEN = ADD.replace("+", "-")
TRICKS = {
    "the process ends when the source is loaded": "<?php exit(0);\n",
    "the process ends in the code under test": "<?php\nfunction add(int $one, int $other): int { exit(0); }\n",
    "the exit code is set when all is over": BROKEN + "register_shutdown_function(function () { exit(0); });\n",
    "assertions are defined away": BROKEN + "namespace PHPUnit\\Framework;\nabstract class Assert { "
    "public static function __callStatic($n, $a) {} public function __call($n, $a) {} }\n",
    "a handler takes every failure": BROKEN + "set_exception_handler(function () { exit(0); });\n",
}


@needs_phpunit
@pytest.mark.parametrize("trick", TRICKS)
async def test_broken_source_that_succeeds_is_no_green_run(trick: str, tmp_path: Path) -> None:
    suite = Suite(tmp_path, COMMAND, {**FILES, "src/add.php": TRICKS[trick]})
    ran = await suite.all()
    told = ran.told
    unended = not told.complete or any(told.ends) or "failed" in told.outcomes.values() or lost_tests(IDS, told.outcomes)
    assert ran.completed.exit_code or unended or not await suite.is_alive(), ran.words


@needs_phpunit
async def test_tests_that_the_settings_leave_out_are_missed(tmp_path: Path) -> None:
    nothing = "<directory suffix='Nothing.php'>tests</directory>"
    settings = f"<phpunit><testsuites><testsuite name='a'>{nothing}</testsuite></testsuites></phpunit>"
    ran = await Suite(tmp_path, ("phpunit",), {**FILES, "src/add.php": BROKEN, "phpunit.xml": settings}).all()
    assert lost_tests(IDS, ran.told.outcomes) == sorted(IDS)


async def test_planted_tests_go_where_the_command_or_its_settings_lead() -> None:
    tree = {**FILES, "other/MoreTest.php": TESTS, "src/AlsoTest.php": TESTS}
    settings = "<phpunit><testsuites><testsuite name='a'><directory>./other</directory></testsuite></testsuites></phpunit>"

    async def folders(*argv: str, **more: str) -> set[str]:
        files = Files({**tree, **more})
        framework = await recognise(argv, files)
        assert framework is not None
        drawn = [await framework.sentinel(argv, files, drawing(seed)) for seed in range(8)]
        return {path.rpartition("/")[0] for each in drawn if each is not None for path in each.files}

    assert await folders("phpunit", "tests") == {"tests"}
    assert await folders("phpunit", **{"phpunit.xml": settings}) == {"other"}
    assert await folders("phpunit", "--filter=adds", "tests") == set()
    assert await folders("phpunit", "tests/AddTest.php") == set()
