"""A manifest of a stranger may hold any value at any place: every framework still answers, or says that it knows nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from gatewright.ecosystems.detection import proposed_commands
from gatewright.ecosystems.node.members import members_of
from gatewright.ecosystems.port import Purpose, ReporterOrder
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.records import read_records
from gatewright.ecosystems.registry import recognise, why_unproven
from gatewright.ecosystems.runner.reading import what_is_read
from gatewright.ecosystems.runner.settings import changed_settings
from tests.ecosystems.python.trees import BytesTree
from tests.odd_values import NO_DOCUMENTS, Message, few_or_all, odd_bytes, odd_lines
from tests.toml_writer import odd_toml

FILES = {
    "tests/test_one.py": b"import pytest\n\ndef test_one() -> None:\n    assert True\n",
    "test/one.test.js": b'const test = require("node:test");\ntest("one", () => {});\n',
    "src/lib.rs": b"",
    "pkg/__init__.py": b"",
    "crates/one/Cargo.toml": b'[package]\nname = "one"\n',
    "packages/one/package.json": b'{"name": "one"}',
}
ORDER = ReporterOrder(Purpose.ALL, "t" * 64, "/pipe")

PACKAGE: Message = {
    "name": "one",
    "type": "module",
    "scripts": {"pretest": "true", "test": "mocha -R spec", "check": "npm run test"},
    "workspaces": {"packages": ["packages/*", "!packages/two"]},
    "mocha": {"spec": ["test/*.js"], "ignore": "x", "recursive": True},
    "jest": {"testMatch": ["**/*.test.js"], "testRegex": "test", "testPathIgnorePatterns": ["x"]},
    "imports": {"#one": "./one.js"},
}
COMPOSER: Message = {"scripts": {"test": ["phpunit"]}}
PYPROJECT: Message = {
    "project": {"name": "one", "entry-points": {"pytest11": {"a": "b"}}},
    "tool": {
        "pytest": {"ini_options": {"python_files": ["test_*.py"], "python_functions": "test", "testpaths": ["tests"]}},
        "setuptools": {"packages": {"find": {"where": ["src"]}}, "package-dir": {"": "src", "a.b": "x"}},
        "hatch": {
            "envs": {
                "default": {"skip-install": True, "scripts": {"test": ["pytest {args}", "x"], "all": "test"}},
                "hatch-test": {"dependencies": [], "skip-install": True},
            },
            "build": {"targets": {"wheel": {"packages": ["src/one"], "sources": {"src": ""}}}, "dev-mode-dirs": ["."]},
        },
        "poetry": {"packages": [{"include": "one", "from": "src"}], "plugins": {"pytest11": {"a": "b"}}},
        "pdm": {"build": {"package-dir": "src"}, "scripts": {"test": "pytest"}},
        "tox": {
            "env_list": ["py"],
            "no_package": True,
            "env_run_base": {"commands": [["pytest", "{posargs}"]], "deps": [], "set_env": {"A": "b"}, "pass_env": ["X"]},
            "env": {"py": {"package": "skip", "skip_install": True}},
        },
    },
}
CARGO: Message = {
    "package": {"name": "top", "autotests": True, "workspace": ".."},
    "workspace": {"members": ["crates/*"], "default-members": ["crates/one"], "exclude": []},
    "lib": {"test": True},
    "bin": [{"name": "x", "test": False}],
    "profile": {"test": {"debug": 1}},
}


TOX_INI = (
    b"[tox]\nenvlist = py,lint\nskipsdist = true\n[testenv]\nskip_install = true\nsetenv =\n  A = b\npassenv = X\n"
    b"commands =\n  pytest {posargs:-q}\n  - python -m unittest\n[testenv:lint]\ndeps = ruff\n[pytest]\npython_files = t_*.py\n"
)
SETUP_CFG = (
    b"[options]\npackage_dir =\n  =src\n[options.packages.find]\nwhere = src\n[tool:pytest]\ntestpaths = tests\n"
    b"[tox:tox]\nx=1\n"
)
NOXFILE = (
    b"import nox\n@nox.session(name='tests', python=['3.11'])\ndef t(session):\n    session.install('x')\n"
    b"    session.run('pytest', *session.posargs)\n"
)
MAKEFILE = (
    b"A := pytest\nA += -q\nexport B ?= $(A)\n.PHONY: test\ntest: one | two ; echo\n\t@$(A) $(B)\none:\n\tcd x && cargo test\n"
)
POM = b"<project>\n<modules>\n<module>one</module>\n</modules>\n<skip>x</skip>\n</project>\n"
GRADLE = b"include 'a', 'b:c'\ninclude(\n 'd'\n)\ntasks.test { useJUnitPlatform() }\n"
CMAKE = (
    b"enable_testing()\nadd_test(NAME one COMMAND one)\ngtest_discover_tests(one)\n"
    b"set_tests_properties(one PROPERTIES WILL_FAIL 1)\n"
)
MESON = b"project('x', 'c')\ntest('one', executable('one', 'one.c'), should_fail: true)\n"
PHPUNIT = (
    b'<phpunit>\n<testsuites><testsuite name="a"><directory suffix="Test.php">tests</directory></testsuite></testsuites>\n'
    b"</phpunit>\n"
)
PNPM = b"packages:\n  - 'packages/*'\n  - \"!x\"\n"
MOCHARC = b"spec:\n  - test/*.js\nrecursive: true\nignore: x\n"
VITEST = b"export default { test: { include: ['test/**'], exclude: [\"x\"] }, coverage: { include: ['y'] } }\n"

#: The file, what is odd about it, and the commands that lead to it.
Odd = Callable[[tuple[object, ...]], Iterator[bytes]]
CASES: Mapping[str, tuple[Odd, tuple[str, ...]]] = {
    "package.json": (
        lambda values: odd_bytes(PACKAGE, values),
        (
            "npm test",
            "npm run check",
            "yarn test",
            "pnpm -w packages/one test",
            "npx jest",
            "npx vitest run",
            "npm -w one test",
        ),
    ),
    "composer.json": (lambda values: odd_bytes(COMPOSER, values), ("phpunit",)),
    "pyproject.toml": (
        lambda values: odd_toml(PYPROJECT, values),
        ("pytest", "tox -e py", "hatch run all x"),
    ),
    "tox.toml": (lambda values: odd_toml(PYPROJECT["tool"]["tox"], values), ("tox", "tox -e py")),
    "hatch.toml": (lambda values: odd_toml(PYPROJECT["tool"]["hatch"], values), ("hatch test", "hatch run all")),
    "pytest.toml": (lambda values: odd_toml({"pytest": {"python_files": ["a"], "testpaths": "b"}}, values), ("pytest",)),
    "Cargo.toml": (lambda values: odd_toml(CARGO, values), ("cargo test", "cargo test --workspace", "cargo nextest run")),
    ".cargo/config.toml": (lambda values: odd_toml({"target": {"x": {"runner": ["a"]}}}, values), ("cargo test",)),
    "tox.ini": (lambda values: odd_lines(TOX_INI, values), ("tox", "tox -e lint", "pytest")),
    "setup.cfg": (lambda values: odd_lines(SETUP_CFG, values), ("tox", "pytest")),
    "noxfile.py": (lambda values: odd_lines(NOXFILE, values), ("nox", "nox --no-venv --no-install -s tests")),
    "Makefile": (lambda values: odd_lines(MAKEFILE, values), ("make test", "make check")),
    "pom.xml": (lambda values: odd_lines(POM, values), ("mvn test",)),
    "settings.gradle": (lambda values: odd_lines(GRADLE, values), ("gradle test",)),
    "build.gradle": (lambda values: odd_lines(GRADLE, values), ("gradle test",)),
    "CMakeLists.txt": (lambda values: odd_lines(CMAKE, values), ("ctest --test-dir build",)),
    "meson.build": (lambda values: odd_lines(MESON, values), ("meson test -C build",)),
    "phpunit.xml": (lambda values: odd_lines(PHPUNIT, values), ("phpunit",)),
    "pnpm-workspace.yaml": (lambda values: odd_lines(PNPM, values), ("pnpm -w packages/one test",)),
    ".mocharc.yml": (lambda values: odd_lines(MOCHARC, values), ("mocha",)),
    "vitest.config.js": (lambda values: odd_lines(VITEST, values), ("npx vitest run",)),
    "go.mod": (lambda values: odd_lines(b"module x\ngo 1.22\nrequire (\n a v1\n)\n", values), ("go test ./...",)),
    ".npmrc": (lambda values: odd_lines(b"node-options=x\n", values), ("npm test",)),
    "Gemfile": (lambda values: odd_lines(b"gem 'minitest'\n", values), ("rake test", "bundle exec rspec")),
}


async def ask_everything(tree: BytesTree, name: str, commands: tuple[str, ...]) -> None:
    """Every question that the product has about a tree and a command."""
    await proposed_commands(tree)
    await import_roots(tree)
    await members_of(tree)
    changed_settings(name.encode(), b"", tree.files[name])
    changed_settings(name.encode(), tree.files[name], None)

    async def contents(paths: Any) -> Mapping[str, bytes]:
        return {path: tree.files[path] for path in paths if path in tree.files}

    for command in commands:
        argv = shlex.split(command)
        await what_is_read([argv], contents)
        framework = await recognise(argv, tree)
        if framework is None:
            assert await why_unproven(argv, tree)
            continue
        await framework.instruments(argv, tree, ORDER)
        await framework.sentinel(argv, tree, Random(1))  # noqa: S311 - no secret


@few_or_all
@pytest.mark.parametrize("name", CASES)
async def test_a_manifest_of_any_shape_is_no_defect(name: str, values: tuple[object, ...]) -> None:
    odd, commands = CASES[name]
    defects = {}
    for content in odd(values):
        try:
            await ask_everything(BytesTree({**FILES, name: content}), name, commands)
        except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
            defects[repr(error)[:200]] = content[:200]
    assert defects == {}


RECORDS: tuple[Message, ...] = (
    {"token": "t", "kind": "begin", "framework": "pytest", "version": "8"},
    {"token": "t", "kind": "test", "id": "a::b", "outcome": "passed"},
    {"token": "t", "kind": "touched", "id": "a::b", "path": "a.py", "line": 3},
    {"token": "t", "kind": "took", "path": "a.py", "milliseconds": 3},
    {"token": "t", "kind": "patched", "name": "x", "path": "a.py"},
    {"token": "t", "kind": "end", "status": 0},
)


@few_or_all
def test_a_record_that_cannot_be_read_is_forged(values: tuple[object, ...]) -> None:
    for record in RECORDS:
        for line in odd_bytes(record, values):
            told = read_records([line], "t")
            assert told.forged <= 1


@pytest.mark.parametrize("line", NO_DOCUMENTS)
def test_bytes_that_are_no_record_are_counted(line: bytes) -> None:
    assert read_records([line], "t").forged == 1
