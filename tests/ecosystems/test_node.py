"""Suites of Node as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from tests.ecosystems.running import Files, Suite, drawing

NPM = ("npm", "test")
NODE = shutil.which("node", path="/usr/bin:/usr/local/bin:/bin")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node below /usr (Debian: apt install nodejs npm)")

SOURCE = "exports.add = (a, b) => a + b;\n"
TESTS = """const assert = require('node:assert');
const { describe, it, test } = require('node:test');
const { add } = require('../src/add.js');
test('adds', () => { assert.equal(add(1, 2), 3); });
describe('signs', () => {
  it('keeps them', () => { assert.equal(add(-1, -2), -3); });
  it.skip('is for later', () => {});
});
test('twice', () => {});
test('twice', () => {});
"""


def package(script: str = "node --test", **more: object) -> str:
    return json.dumps({"name": "demo", "version": "1.0.0", "scripts": {"test": script}, **more})


def suite(**more: str) -> dict[str, str]:
    return {"package.json": package(), "src/add.js": SOURCE, "test/add.test.js": TESTS, **more}


@needs_node
@pytest.mark.parametrize("argv", [("node", "--test"), NPM, ("npm", "run", "test"), ("node", "--test", "test/add.test.js")])
async def test_each_test_reports_its_outcome(argv: tuple[str, ...], tmp_path: Path) -> None:
    ran = await Suite(tmp_path, argv, suite()).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.complete
    assert (ran.told.framework, ran.told.ends, ran.told.duplicates) == ("node:test", [0], set())
    assert ran.told.outcomes == {
        "test/add.test.js::adds": "passed",
        "test/add.test.js::signs > keeps them": "passed",
        "test/add.test.js::signs > is for later": "skipped",
        "test/add.test.js::twice": "passed",
        "test/add.test.js::twice #2": "passed",
    }
    assert ran.told.collected == set(ran.told.outcomes)


@needs_node
@pytest.mark.parametrize("title", [r"'half \ud800'", r"'\udc00 half'", r"'a'.repeat(579) + '\ud83d\ude00'.repeat(300)"])
async def test_a_title_that_is_invalid_unicode_is_reported(title: str, tmp_path: Path) -> None:
    """JSON of half a pair of surrogates is refused by readers, so that the test would be lost and the report forged."""
    tests = f"const {{ test }} = require('node:test');\ntest({title}, () => {{}});\n"
    ran = await Suite(tmp_path, ("node", "--test"), {"package.json": package(), "test/odd.test.js": tests}).all()
    assert ran.told.complete
    assert list(ran.told.outcomes.values()) == ["passed"]


COPY = {"node_modules/demo/index.js": "exports.add = () => 0;\n", "node_modules/demo/package.json": '{"name": "demo"}'}
BY_NAME = "const { test } = require('node:test');\nrequire('demo');\ntest('loads', () => {});\n"


@needs_node
async def test_an_installed_copy_of_the_project_is_reported(tmp_path: Path) -> None:
    files = {"package.json": package(), "index.js": SOURCE, "test/name.test.js": BY_NAME, **COPY}
    ran = await Suite(tmp_path, NPM, files).all()
    assert ran.told.complete
    assert ran.told.origins == {"demo": "/workspace/node_modules/demo/index.js"}


@needs_node
async def test_the_project_and_dependencies_of_packages_are_no_tested_copies(tmp_path: Path) -> None:
    other = {"node_modules/other/index.js": "require('demo');\n", "test/other.test.js": "require('other');\n"}
    exported = package(exports={".": "./index.js"})
    files = {"package.json": exported, "index.js": SOURCE, "test/name.test.js": BY_NAME, **COPY, **other}
    ran = await Suite(tmp_path, NPM, files).all()
    assert ran.told.complete
    assert ran.told.origins == {}


@needs_node
async def test_people_still_read_the_output_of_the_runner(tmp_path: Path) -> None:
    script = package("node --test --test-reporter=tap")
    assert "keeps them" in (await Suite(tmp_path, NPM, suite()).all()).words
    ran = await Suite(tmp_path / "own", NPM, suite(**{"package.json": script})).all()
    assert "TAP version" in ran.words
    assert len(ran.told.outcomes) == 5


SCRIPT_OF_A_SCRIPT = json.dumps({"scripts": {"test": "npm run unit", "unit": "node --test"}})
MODULE_TESTS = "import test from 'node:test';\nimport '../src/add.js';\ntest('adds', () => {});\n"
SUITES: Mapping[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "the folder test": (NPM, suite()),
    "node by itself": (("node", "--test"), suite()),
    "modules by package.json": (NPM, {"package.json": package(type="module"), "src/add.js": "", "test/add.js": MODULE_TESTS}),
    "modules by their ending": (NPM, {"package.json": package(), "src/add.js": "", "lib/add.test.mjs": MODULE_TESTS}),
    "a glob for the shell": (NPM, suite(**{"package.json": package("node --test test/*.test.js")})),
    "a pretest and another command": (NPM, suite(**{"package.json": package("node src/add.js && node --test")})),
    "a script that starts a script": (NPM, suite(**{"package.json": SCRIPT_OF_A_SCRIPT})),
    "a workspace": (
        ("npm", "test", "--workspace=one"),
        {
            "package.json": json.dumps({"name": "top", "workspaces": ["packages/one"]}),
            "packages/one/package.json": json.dumps({"name": "one", "version": "1.0.0", "scripts": {"test": "node --test"}}),
            "packages/one/test/add.test.js": TESTS.replace("../src/add.js", "../add.js"),
            "packages/one/add.js": SOURCE,
        },
    ),
    "make": (("make", "test"), suite(Makefile="NODE ?= node\n.PHONY: test\ntest: lint\n\t@$(NODE) --test\nlint:\n\t@true\n")),
    "make with jobs": (("make", "-j2", "test"), suite(Makefile=".PHONY: test\ntest:\n\tnode --test\n")),
    "the short name of a script": (("npm", "t"), suite()),
    "a script with options of its own": (("npm", "run", "test", "--", "--test-concurrency=1"), suite()),
    "make through npm": (("make", "check"), suite(Makefile="check:\n\tnpm test\n")),
}


@needs_node
@pytest.mark.parametrize("name", SUITES)
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(name: str, tmp_path: Path) -> None:
    argv, files = SUITES[name]
    started = Suite(tmp_path, argv, files)
    sentinel, ran = await started.control()
    assert ran.completed.exit_code != 0, ran.words
    assert (ran.told.outcomes.get(sentinel.failing), ran.told.outcomes.get(sentinel.passing)) == ("failed", "passed"), ran.words
    assert ran.told.complete
    assert [each for each, outcome in ran.told.outcomes.items() if outcome == "failed"] == [sentinel.failing]


@needs_node
async def test_a_control_loads_every_test_file_and_runs_no_test_of_theirs(tmp_path: Path) -> None:
    loud = "const test = require('node:test');\nconsole.log('loaded');\ntest('loud', () => { console.log('ran'); });\n"
    _, ran = await Suite(tmp_path, NPM, suite(**{"test/loud.test.js": loud})).control()
    assert ("loaded" in ran.words, "ran" in ran.words.replace("loud", "")) == (True, False)


async def test_planted_tests_are_drawn_anew_each_time_and_named_like_their_neighbours() -> None:
    argv, files = ("node", "--test"), {f"test/{name}.test.js": TESTS for name in ("one", "two")}
    framework = await recognise(argv, Files(files))
    assert framework is not None
    drawn = [await framework.sentinel(argv, Files(files), drawing(seed)) for seed in range(8)]
    paths = {path for each in drawn if each is not None for path in each.files}
    assert len(paths) == 8
    assert all(path.startswith("test/") and path.endswith(".test.js") for path in paths)
    texts = [content for each in drawn if each is not None for content in each.files.values()]
    assert not any(word in text.lower() for text in texts for word in (b"gatewright", b"sentinel", b"planted", b"control"))


@pytest.mark.parametrize(
    ("files", "argv", "words"),
    [
        ({"package.json": package("NODE_OPTIONS=--no-warnings jest")}, NPM, "sets NODE_OPTIONS"),
        ({"package.json": package("mocha -R mocha-junit-reporter")}, NPM, "names one that mocha does not bring"),
        ({"package.json": package("mocha --reporter=./own.js")}, NPM, "names one that mocha does not bring"),
        ({"package.json": package(), ".npmrc": "node-options=--no-warnings"}, NPM, "node-options"),
        ({"package.json": package("true")}, NPM, "no test framework"),
        ({"Makefile": "test:\n\tcmake --build build --target test\n"}, ("make", "test"), "by its full path"),
        ({"Makefile": "test:\n\t./run-them\n"}, ("make", "test"), "not a known test framework"),
    ],
)
async def test_a_command_that_is_not_recognised_is_explained(files: dict[str, str], argv: tuple[str, ...], words: str) -> None:
    assert await recognise(argv, Files(files)) is None
    assert words in await why_unproven(argv, Files(files))


@pytest.mark.parametrize(
    ("script", "framework"),
    [
        ("node --test", "node:test"),
        ("c8 --reporter=text node --test test", "node:test"),
        ("mocha", "mocha"),
        ("cross-env A=1 mocha --exit", "mocha"),
        ("nyc mocha 'test/**/*.js'", "mocha"),
        ("tsc && jest --ci", "jest"),
        ("vitest run", "vitest"),
        ("npx --no-install vitest run", "vitest"),
        ("node --experimental-vm-modules node_modules/jest/bin/jest.js", "jest"),
    ],
)
@pytest.mark.parametrize("manager", [NPM, ("npm", "run", "test"), ("yarn", "test"), ("pnpm", "test"), ("pnpm", "run", "test")])
async def test_a_runner_is_recognised_through_a_package_manager(manager: tuple[str, ...], script: str, framework: str) -> None:
    found = await recognise(manager, Files({"package.json": package(script)}))
    assert found is not None
    assert found.name == framework


@pytest.mark.parametrize("argv", [("node", "--test", "test/add.test.js"), ("node", "--test", "--test-name-pattern=adds")])
async def test_where_only_some_tests_run_there_is_no_place_for_planted_ones(argv: tuple[str, ...]) -> None:
    framework = await recognise(argv, Files(suite()))
    assert framework is not None
    assert await framework.sentinel(argv, Files(suite()), drawing(1)) is None
