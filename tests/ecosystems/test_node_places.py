"""Where a planted test of Node goes: where the words of the command and the settings of the runner have it run."""

from __future__ import annotations

import json

import pytest

from gatewright.ecosystems.node.frameworks import NODE_FRAMEWORKS
from gatewright.ecosystems.node.members import members_of
from tests.ecosystems.python.trees import Tree
from tests.ecosystems.running import drawing

TEST = "test('adds', () => {});\n"
JSON = json.dumps


async def planted(command: str, files: dict[str, str], seed: int = 1) -> str:
    """The path of the planted file, without its drawn name; empty for none."""
    tree = Tree({"package.json": "{}", **files})
    argv = command.split()
    (framework,) = [each for each in NODE_FRAMEWORKS if await each.recognises(argv, tree)]
    sentinel = await framework.sentinel(argv, tree, drawing(seed))
    if sentinel is None:
        return ""
    (path,) = sentinel.files
    return path.rpartition("/")[0] or "."


TWO = {"src/add.spec.js": TEST, "test/old.js": TEST, "lib/x.test.js": TEST}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("command", "settings", "expected"),
    [
        ("mocha", {}, "test"),
        ("mocha", {".mocharc.json": JSON({"spec": ["src/**/*.spec.js"]})}, "src"),
        ("mocha", {".mocharc.yml": "timeout: 5\nspec:\n  - 'src/**/*.spec.js'\nui: bdd\n"}, "src"),
        ("mocha", {".mocharc.yml": "spec: src/**/*.spec.js\n"}, "src"),
        ("mocha", {".mocharc.cjs": "module.exports = { spec: 'src/**/*.spec.js' };\n"}, "src"),
        ("mocha", {"package.json": JSON({"mocha": {"spec": "src"}})}, "src"),
        ("mocha", {".mocharc.json": JSON({"ignore": ["test/**"]})}, ""),
        ("vitest run", {"vitest.config.ts": "export default { test: { include: ['src/**/*.spec.js'] } }"}, "src"),
        ("vitest run", {"vitest.config.ts": "export default { test: { exclude: ['lib/**'] } }"}, "src"),
        (
            "vitest run",
            {"vite.config.js": "export default { test: { coverage: { include: ['lib/**'] }, include: ['src/**/*.spec.js'] } }"},
            "src",
        ),
        ("jest", {"jest.config.js": "module.exports = { testMatch: ['<rootDir>/src/**/*.spec.js'] };"}, "src"),
        ("jest", {"package.json": JSON({"jest": {"testRegex": "\\.spec\\.js$"}})}, "src"),
        ("jest", {"package.json": JSON({"jest": {"testPathIgnorePatterns": ["/lib/", "(?<!x)["]}})}, "src"),
    ],
)
async def test_planted_tests_lie_where_the_settings_have_them_run(
    command: str, settings: dict[str, str], expected: str, seed: int
) -> None:
    assert await planted(command, {**TWO, **settings}, seed) == expected


async def test_a_glob_of_mocha_may_mean_folders() -> None:
    files = {"packages/one/test/one.js": TEST, "packages/one/index.js": TEST}
    assert await planted("mocha packages/*/test", files) == "packages/one/test"


async def test_workspaces_are_those_of_npm_yarn_and_pnpm() -> None:
    one, two = JSON({"name": "@s/one"}), JSON({"name": "two"})
    files = {"a/one/package.json": one, "b/package.json": two, "a/one/node_modules/x/package.json": JSON({"name": "x"})}
    listed = {"package.json": JSON({"workspaces": ["a/*", "./b"]})}
    nested = {"package.json": JSON({"workspaces": {"packages": ["a/**", "b", "!b"]}})}
    pnpm = {"package.json": "{}", "pnpm-workspace.yaml": "packages:\n  # all\n  - 'a/*'\n  - b\n"}
    assert await members_of(Tree({**files, **listed})) == {"@s/one": "a/one", "two": "b"}
    assert await members_of(Tree({**files, **nested})) == {"@s/one": "a/one"}
    assert await members_of(Tree({**files, **pnpm})) == {"@s/one": "a/one", "two": "b"}
    assert await members_of(Tree(files)) == {}
