"""mocha, jest and vitest as they really run, where they are installed for the whole machine (``npm install --global``)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ecosystems.running import Suite

BODY = """
describe('signs', () => {
  it('keeps them', () => { equal(1 + 2, 3); });
  it.skip('is for later', () => {});
});
it('adds', () => { equal(2 + 2, 4); });
"""
IMPORTS = "import { describe, expect, it } from 'vitest';\n"
SUITES: Mapping[str, dict[str, str]] = {
    "mocha": {"test/add.js": "const equal = require('node:assert').equal;" + BODY},
    "jest": {"src/add.test.js": "const equal = (a, b) => expect(a).toBe(b);" + BODY},
    "vitest": {"src/add.test.ts": IMPORTS + "const equal = (a: number, b: number) => expect(a).toBe(b);" + BODY},
}
SCRIPTS = {"mocha": "mocha", "jest": "jest --ci", "vitest": "vitest run"}


def installed(runner: str) -> Path | None:
    """The folder of packages that holds the runner, in a place that its program shares."""
    found = shutil.which(runner)
    if found is None:
        return None
    packages = Path(found).parent.parent / "lib" / "node_modules"
    return packages if (packages / runner).is_dir() else None


def runners() -> list[object]:
    return [
        pytest.param(
            name, marks=pytest.mark.skipif(installed(name) is None, reason=f"there is no {name} (npm install --global)")
        )
        for name in SUITES
    ]


def suite(name: str, folder: Path, **more: str) -> Suite:
    packages = installed(name)
    assert packages is not None
    files = {"package.json": json.dumps({"name": "demo", "scripts": {"test": SCRIPTS[name]}}), **SUITES[name], **more}
    prefix = packages.parent.parent
    links = {"node_modules": packages}
    return Suite(folder, ("npm", "test"), files, None if prefix == Path("/usr") else prefix, links)


@pytest.mark.parametrize("name", runners())
async def test_each_test_reports_its_outcome(name: str, tmp_path: Path) -> None:
    ran = await suite(name, tmp_path).all()
    assert ran.completed.exit_code == 0, ran.words
    path = next(iter(SUITES[name]))
    assert ran.told.outcomes == {
        f"{path}::signs > keeps them": "passed",
        f"{path}::signs > is for later": "skipped",
        f"{path}::adds": "passed",
    }
    assert (ran.told.complete, ran.told.framework, ran.told.ends) == (True, name, [0])
    assert "keeps them" in ran.words or "1 passed" in ran.words


@pytest.mark.skipif(installed("mocha") is None, reason="there is no mocha (npm install --global)")
@pytest.mark.parametrize("script", ["mocha --reporter spec --check-leaks test/", "mocha test -R=tap", "mocha --reporter dot"])
async def test_a_custom_mocha_reporter_still_reports_outcomes_and_its_output(script: str, tmp_path: Path) -> None:
    path, content = next(iter(SUITES["mocha"].items()))
    words = json.dumps(script.split()[1:])
    reads = f"it('reads its words', () => {{ equal(JSON.stringify(process.argv.slice(2)), JSON.stringify({words})); }});"
    files = {path: content + reads, "package.json": json.dumps({"name": "demo", "scripts": {"test": script}})}

    told = suite("mocha", tmp_path / "told", **files)
    ran = await told.all()
    sentinel, control = await suite("mocha", tmp_path / "planted", **files).control()

    assert (ran.completed.exit_code, ran.told.complete) == (0, True), ran.words
    assert ran.told.outcomes[f"{path}::reads its words"] == "passed"
    assert ("# pass 3" in ran.words) == ("tap" in script)
    assert control.told.outcomes.get(sentinel.failing) == "failed", control.words
    assert control.completed.exit_code != 0


@pytest.mark.parametrize("name", [each for each in runners() if "vitest" not in getattr(each, "values", ())])
async def test_a_program_that_reads_its_own_words_reads_none_of_ours(name: str, tmp_path: Path) -> None:
    path, content = next(iter(SUITES[name].items()))
    reads = "it('reads its words', () => { equal(process.argv.slice(2).filter((word) => word !== '--ci').length, 0); });"

    ran = await suite(name, tmp_path, **{path: content + reads}).all()

    assert ran.told.outcomes[f"{path}::reads its words"] == "passed", ran.words


@pytest.mark.parametrize("name", runners())
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(name: str, tmp_path: Path) -> None:
    sentinel, ran = await suite(name, tmp_path).control()
    outcomes = ran.told.outcomes
    assert (outcomes.get(sentinel.failing), outcomes.get(sentinel.passing)) == ("failed", "passed"), ran.words
    assert "passed" not in {outcome for each, outcome in outcomes.items() if each != sentinel.passing}
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


@pytest.mark.parametrize("name", runners())
async def test_a_test_that_ends_the_process_does_not_look_like_success(name: str, tmp_path: Path) -> None:
    path = next(iter(SUITES[name]))
    dies = SUITES[name][path] + "it('dies', () => { process.exit(0); });\nit('comes after', () => {});\n"
    ran = await suite(name, tmp_path, **{path: dies}).all()
    assert ran.completed.exit_code != 0 or not ran.told.complete or "failed" in ran.told.outcomes.values(), ran.words


@pytest.mark.long
@pytest.mark.parametrize("name", [each for each in runners() if "mocha" not in getattr(each, "values", ())])
async def test_the_control_of_a_large_suite_loads_a_part_of_it(name: str, tmp_path: Path) -> None:
    path, content = next(iter(SUITES[name].items()))
    parts = {path.replace("add", f"part{number}"): content for number in range(20)}
    large = suite(name, tmp_path, **parts)
    ran = await large.all()
    assert len(ran.told.outcomes) == 63
    assert ran.told.took.keys() == {path, *parts}
    assert all(0 < took < 60_000 for took in ran.told.took.values()), ran.told.took
    sentinel, control = await large.control()
    assert (control.told.outcomes[sentinel.failing], control.told.outcomes[sentinel.passing]) == ("failed", "passed")
    assert (len(control.told.took), control.completed.exit_code != 0) == (11, True), control.words


@pytest.mark.long
@pytest.mark.skipif(installed("jest") is None, reason="there is no jest (npm install --global)")
async def test_the_control_leaves_out_what_a_jest_filter_leaves_out(tmp_path: Path) -> None:
    content = SUITES["jest"]["src/add.test.js"]
    files = {
        **{f"src/part{number}.test.js": content for number in range(25)},
        "jest.config.js": "module.exports = { filter: '<rootDir>/some.js' };\n",
        "some.js": "const known = (path) => /part1?[0-9]\\.test/.test(path);\n"
        "module.exports = (paths) => {\n"
        "  const left = paths.filter((path) => known(path));\n"
        "  return { filtered: [...left, ...left.map((test) => ({ test }))] };\n};\n",
    }
    filtered = suite("jest", tmp_path, **files)
    assert not await filtered.is_alive()
    sentinel, control = await filtered.control()
    assert sentinel.failing not in control.told.outcomes, control.words


@pytest.mark.long
@pytest.mark.skipif(installed("vitest") is None, reason="there is no vitest (npm install --global)")
async def test_a_large_vitest_suite_with_shared_context_is_loaded_completely(tmp_path: Path) -> None:
    content = SUITES["vitest"]["src/add.test.ts"]
    files = {f"src/part{number}.test.ts": content for number in range(20)}
    script = json.dumps({"name": "demo", "scripts": {"test": "vitest run --no-isolate"}})
    _, control = await suite("vitest", tmp_path, **files, **{"package.json": script}).control()
    assert (len(control.told.took), control.completed.exit_code != 0) == (22, True), control.words
