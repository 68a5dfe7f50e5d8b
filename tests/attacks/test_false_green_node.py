"""Broken JavaScript whose tests succeed all the same: through the real test runner and the rules of the tests gate."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping

import pytest

from tests.ecosystems.suites import Suite
from tests.series import series

NODE = shutil.which("node", path="/usr/bin:/usr/local/bin:/bin")
pytestmark = [
    pytest.mark.skipif(NODE is None, reason="there is no node below /usr (Debian: apt install nodejs npm)"),
    pytest.mark.asyncio(loop_scope="module"),
]

NPM, NODE_TEST, MAKE = "npm test", "node --test", "make test"


def package(script: str) -> bytes:
    return json.dumps({"name": "demo", "version": "1.0.0", "scripts": {"test": script}}).encode()


SOURCE = b"exports.add = (a, b) => a + b;\n"
BROKEN = b"exports.add = (a, b) => a - b;\n"
TESTS = b"""const assert = require('node:assert');
const { test } = require('node:test');
const { add } = require('../src/add.js');
test('adds', () => { assert.equal(add(1, 2), 3); });
test('adds nothing', () => { assert.equal(add(1, 0), 1); });
"""
EMPTY = b"require('node:test')('x', () => {});\n"
MAKEFILE = b".PHONY: test\ntest:\n\tnode --test\n"
FILES = {"package.json": package("node --test"), "Makefile": MAKEFILE, "src/add.js": SOURCE, "test/add.test.js": TESTS}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """One for all tricks, as a test runner's life is: what it found out about the baseline it remembers."""
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


async def codes(suite: Suite, changes: Mapping[str, bytes | None], test: str = NODE_TEST, *, green: bool = True) -> set[str]:
    """The codes for a change under the strictest reading; ``green``: its command must have succeeded."""
    report = await suite.tested(changes, test)
    assert (report.commands[-1].exit_code == 0) is green, report.commands[-1].proof
    return {broken.code for broken in suite.judged(report, "recorded")}


@pytest.mark.parametrize("test", series([NPM, NODE_TEST, MAKE], NODE_TEST))
async def test_an_honest_change_is_proved(test: str, suite: Suite) -> None:
    more = TESTS + b"test('more', () => { assert.equal(add(2, 2), 4); });\n"
    report = await suite.tested({"src/add.js": SOURCE + b"// more\n", "test/add.test.js": more}, test)
    assert suite.judged(report, "proved") == ()
    proof = report.commands[0].proof
    assert proof is not None
    assert (proof.framework, proof.collected_before, proof.lost_count, proof.new_count) == ("node:test", 2, 0, 1)


async def test_exit_0_when_the_source_is_loaded(suite: Suite) -> None:
    assert "tests_lost" in await codes(suite, {"src/add.js": BROKEN + b"process.exit(0);\n"})


@pytest.mark.long
async def test_exit_0_from_a_timer(suite: Suite) -> None:
    tests = TESTS.replace(b"test('adds', ()", b"test('adds', async () => { await new Promise(r => setTimeout(r, 3000)); }, ()")
    changes = {"src/add.js": BROKEN + b"setTimeout(() => process.exit(0), 0);\n"}
    assert await codes(suite, {**changes, "test/add.test.js": tests}) & {"tests_lost", "report_missing"}


@pytest.mark.long
async def test_exit_0_in_the_middle_of_a_test(suite: Suite) -> None:
    assert await codes(suite, {"src/add.js": b"exports.add = () => process.exit(0);\n"}) & {"tests_lost", "report_missing"}


@pytest.mark.long
async def test_the_exit_code_is_set_when_the_process_goes(suite: Suite) -> None:
    going = BROKEN + b"process.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });\n"
    assert await codes(suite, {"src/add.js": going}, green=False)


async def test_every_test_is_skipped(suite: Suite) -> None:
    skipped = TESTS.replace(b"test('", b"test.skip('")
    assert "tests_none" in await codes(suite, {"src/add.js": BROKEN, "test/add.test.js": skipped})


@pytest.mark.long
async def test_one_test_is_skipped(suite: Suite) -> None:
    skipped = TESTS.replace(b"test('adds',", b"test.skip('adds',")
    broken = b"exports.add = (a, b) => b ? a - b : a;\n"
    assert "tests_lost" in await codes(suite, {"src/add.js": broken, "test/add.test.js": skipped})


@pytest.mark.long
async def test_tests_become_something_to_do(suite: Suite) -> None:
    later = TESTS.replace(b"test('", b"test.todo('")
    assert "tests_none" in await codes(suite, {"src/add.js": BROKEN, "test/add.test.js": later})


async def test_a_test_is_deleted(suite: Suite) -> None:
    assert "tests_lost" in await codes(suite, {"src/add.js": BROKEN, "test/add.test.js": None, "test/b.test.js": EMPTY})


@pytest.mark.long
async def test_a_test_file_is_renamed_so_that_nothing_collects_it(suite: Suite) -> None:
    changes = {"src/add.js": BROKEN, "test/add.test.js": None, "kept/add.js": TESTS}
    assert {"tests_lost", "tests_none", "report_missing"} & await codes(suite, changes)


@pytest.mark.long
@pytest.mark.parametrize(
    "script",
    series(
        ["true", "node --test || true", "node --test; exit 0", "node --test & exit 0", "node --test | cat"],
        "node --test || true",
    ),
)
async def test_the_script_of_package_json_swallows_the_tests(script: str, suite: Suite) -> None:
    changes = {"src/add.js": BROKEN, "package.json": package(script)}
    assert await codes(suite, changes, NPM) & {"report_missing", "tests_not_alive", "tests_lost"}


@pytest.mark.long
async def test_the_script_runs_something_else_that_succeeds(suite: Suite) -> None:
    changes = {"src/add.js": BROKEN, "package.json": package("node --test other"), "other/x.test.js": EMPTY}
    assert "tests_lost" in await codes(suite, changes, NPM)


@pytest.mark.long
async def test_a_script_chooses_by_a_pattern_that_leaves_tests_out(suite: Suite) -> None:
    broken = b"exports.add = (a, b) => b ? a - b : a;\n"
    script = package("node --test --test-name-pattern=nothing")
    assert "tests_lost" in await codes(suite, {"src/add.js": broken, "package.json": script}, NPM)


@pytest.mark.parametrize("name", series(["Makefile", "GNUmakefile", "makefile"], "GNUmakefile"))
async def test_a_makefile_that_does_nothing(name: str, suite: Suite) -> None:
    changes: dict[str, bytes | None] = {"src/add.js": BROKEN, name: b".PHONY: test\ntest:\n\t@true\n"}
    assert await codes(suite, changes, MAKE) & {"report_missing", "tests_lost"}


@pytest.mark.long
async def test_a_target_that_is_a_folder_and_so_is_up_to_date(suite: Suite) -> None:
    changes = {"src/add.js": BROKEN, "Makefile": b"test:\n\tnode --test\n"}
    assert "report_missing" in await codes(suite, changes, MAKE)


@pytest.mark.long
async def test_a_recipe_whose_exit_code_is_ignored(suite: Suite) -> None:
    changes = {"src/add.js": BROKEN, "Makefile": b".PHONY: test\ntest:\n\t-node --test\n"}
    assert await codes(suite, changes, MAKE) & {"report_missing", "tests_not_alive"}


@pytest.mark.long
async def test_assertions_that_always_hold(suite: Suite) -> None:
    """Patched where the planted test finds it, too: in a module that the script loads before each test file."""
    script = package("node --require ./src/patch.js --test")
    patch = b"const assert = require('node:assert'); for (const name of Object.keys(assert)) assert[name] = () => {};\n"
    changes = {"src/add.js": BROKEN, "src/patch.js": patch, "package.json": script}
    assert "tests_not_alive" in await codes(suite, changes, NPM)


@pytest.mark.long
async def test_a_runner_of_the_candidate_s_own_in_place_of_node(suite: Suite) -> None:
    fake = b"#!/bin/sh\nexit 0\n"
    script = package("PATH=./bin:$PATH sh ./bin/node --test")
    assert await codes(suite, {"src/add.js": BROKEN, "bin/node": fake, "package.json": script}, NPM) & {
        "report_missing",
        "tests_lost",
    }


async def test_records_that_the_code_under_test_makes_up(suite: Suite) -> None:
    """Without the token, which it would have to look for."""
    record = json.dumps({"token": "x", "kind": "end", "status": 0}).encode()
    forging = BROKEN + b"require('node:fs').writeFileSync('/gatewright/report', '" + record + b"\\n');\n"
    assert "report_missing" in await codes(suite, {"src/add.js": forging + b"process.exit(0);\n"})
