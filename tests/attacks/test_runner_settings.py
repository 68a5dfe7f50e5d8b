"""What decides which tests run, changed beside the work: one test each, through the real gate; and what only looks so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import AcceptanceTest, Scope
from tests.attacks.real_gate import codes, open_gate
from tests.git.repositories import MakeRepository, Repository

PYPROJECT = b'[project]\nname = "x"\ndependencies = ["a>=1"]\n\n[tool.pytest.ini_options]\naddopts = "-q"\n'
PACKAGE = {
    "name": "x",
    "version": "1.0.0",
    "scripts": {"test": "node scripts/run.js && npm run lint", "lint": "eslint ."},
    "dependencies": {"a": "1"},
    "jest": {"bail": 0},
    "imports": {"#a": "./src/a.js"},
}
CARGO = b'[package]\nname = "x"\nversion = "1.0.0"\n\n[dependencies]\na = "1"\n'
SETUP_CFG = b"[metadata]\nname = x\n\n[tool:pytest]\naddopts = -q\n"
C_LISTS = b"add_executable(a a.c)\nadd_test(\n  NAME a\n  COMMAND a\n)\ngtest_discover_tests(b)\n"
C_MESON = b"exe = executable('a', 'a.c')\ntest('a',\n  exe)\n"
MAKEFILE = (
    b"include mk/rules.mk\n\ntest: check\n\tpython -m pytest\n\n"
    b"check:\n\t@./tools/check.sh --all\n\nserve:\n\tpython src/app.py\n"
)
FILES = {
    "Makefile": MAKEFILE,
    "mk/rules.mk": b"X = 1\n",
    "tools/check.sh": b"exit 1\n",
    "tools/check.py": b"raise SystemExit(1)\n",
    "tools/other.py": b"x = 1\n",
    "scripts/run.js": b"process.exitCode = 1\n",
    "src/app.py": b"one\n",
    "src/data.txt": b"one\n",
    "pyproject.toml": PYPROJECT,
    "package.json": json.dumps(PACKAGE).encode(),
    "Cargo.toml": CARGO,
    "setup.cfg": SETUP_CFG,
    "vite.config.ts": b"export default { plugins: [] }\n",
    "c/CMakeLists.txt": C_LISTS,
    "c/meson.build": C_MESON,
}
EVERYWHERE = tuple(sorted({name.partition("/")[0] for name in FILES}))


@dataclass
class Asked:
    """The gate over one repository, asked about one change under contracts that differ."""

    repository: Repository
    folder: Path
    patch: bytes = b""

    async def judged(
        self, files: dict[str, bytes | None], command: str = "python -m pytest -q", scope: Scope | None = None
    ) -> GateReport:
        """The verdict on a change of ``files`` under a contract that may change them all, and dependencies."""
        paths = tuple(dict.fromkeys((*EVERYWHERE, *(name.partition("/")[0] for name in files))))
        tests = (AcceptanceTest(name="t", cmd=command, must_pass=True),)
        scope = scope or Scope(allow_dependency_change=True)
        async with open_gate(self.repository, self.folder, allowed_paths=paths, acceptance_tests=tests, scope=scope) as gate:
            self.patch = self.patch or gate.patch(files)
            return await gate.diff(await gate.worked(self.patch))

    async def refused(self, files: dict[str, bytes | None], command: str = "python -m pytest -q") -> str:
        """What the one refusal of ``files`` says; it must be about the class, and open by the names of the files."""
        report = await self.judged(files, command)
        found = {(each.code, each.rule, each.path) for each in report.violations}
        assert found == {("path_protected", "protected_paths.runner", path) for path in files}
        by_name = Scope(allow_dependency_change=True, allow_protected_paths=tuple(files))
        assert codes(await self.judged(files, command, by_name)) == []
        return report.violations[0].detail


@pytest.fixture
def asked(make_repository: MakeRepository, tmp_path: Path) -> Asked:
    return Asked(make_repository(files=FILES), tmp_path)


NAMES = (
    "Makefile GNUmakefile common.mk justfile Rakefile noxfile.py tox.ini pytest.ini .pytest.ini pytest.toml src/pytest.ini "
    "src/more-1.0.dist-info/entry_points.txt more.egg-info/entry_points.txt pkg/__pycache__/a.cpython-312.pyc hatch.toml "
    "babel.config.js packages/a/.babelrc .swcrc node.config.json "
    ".coveragerc CMakePresets.json web/vitest.config.mts jest.config.js .mocharc.json karma.conf.js playwright.config.ts "
    ".mvn/maven.config .mvn/jvm.config phpunit.xml phpunit.xml.dist .rspec .cargo/config.toml .config/nextest.toml "
    "CTestCustom.cmake all.runsettings turbo.json"
)


@pytest.mark.parametrize("path", NAMES.split())
async def test_a_file_of_runner_settings_is_refused(path: str, asked: Asked) -> None:
    said = await asked.refused({path: b"# nothing is tested\n"})
    assert "by name" in said


async def test_a_folder_does_not_open_runner_settings_in_it(asked: Asked) -> None:
    for folder in ("src", "src/deep"):
        report = await asked.judged({"src/deep/pytest.ini": b"[pytest]\n"}, scope=Scope(allow_protected_paths=(folder,)))
        assert codes(report) == ["path_protected"]


def package(**changes: object) -> bytes:
    return json.dumps({**PACKAGE, **changes}).encode()


def scripts(**changes: str) -> bytes:
    return package(scripts={**PACKAGE["scripts"], **changes})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("pyproject.toml", PYPROJECT.replace(b'"-q"', b'"--co"'), "tool.pytest"),
        ("pyproject.toml", b"x = '''\n" + PYPROJECT + b"'''\n", "tool.pytest"),
        ("pyproject.toml", PYPROJECT + b"[tool.coverage.run]\nomit = ['*']\n", "tool.coverage"),
        ("pyproject.toml", PYPROJECT + b"[project.entry-points.pytest11]\nx = 'evil'\n", "pytest11"),
        ("pyproject.toml", PYPROJECT + b"[tool.hatch.envs.test.scripts]\nrun = 'true'\n", "tool.hatch.envs.test"),
        ("pyproject.toml", PYPROJECT + b"not toml", "cannot be read"),
        ("pyproject.toml", PYPROJECT + b"a" + b".a" * 5000 + b" = 1\n", "cannot be read"),
        ("pyproject.toml", None, "tool.pytest"),
        ("package.json", package(imports={"#a": "./src/other.js"}), "imports.#a"),
        ("package.json", scripts(test="true"), "scripts.test"),
        ("package.json", scripts(pretest="exit 0"), "scripts.pretest"),
        ("package.json", scripts(lint="true"), "scripts.lint"),
        ("package.json", package(jest={"testMatch": []}), "jest"),
        ("package.json", package(scripts=[]), "scripts"),
        ("package.json", b"[" * 100_000, "cannot be read"),
        ("setup.cfg", SETUP_CFG.replace(b"-q", b"--co"), "tool:pytest"),
        ("setup.py", b"setup(test_suite='nothing')\n", "test_suite"),
        ("Cargo.toml", CARGO + b"[lib]\ntest = false\n", "lib.test"),
        ("Cargo.toml", CARGO + b"[[test]]\nname = 'a'\nharness = false\n", "test"),
        ("Cargo.toml", CARGO.replace(b"[dep", b"autotests = false\n[dep"), "autotests"),
        (".npmrc", b"script-shell=/bin/true\n", "script-shell"),
        ("composer.json", b'{"scripts": {"test": "true"}}', "scripts"),
        ("pom.xml", b"<skipTests>true</skipTests>\n", "skipTests"),
        ("build.gradle", b"test { ignoreFailures = true }\n", "ignoreFailures"),
        ("src/CMakeLists.txt", b"set_tests_properties(a PROPERTIES WILL_FAIL 1)\n", "WILL_FAIL"),
        ("src/CMakeLists.txt", b"add_compile_definitions(NDEBUG)\n", "NDEBUG"),
        ("c/CMakeLists.txt", C_LISTS.replace(b"COMMAND a\n", b"COMMAND true\n"), "declared test: a"),
        ("c/CMakeLists.txt", C_LISTS.replace(b"gtest", b"# gtest"), "declared test: b"),
        ("c/meson.build", C_MESON.replace(b"  exe)", b"  find_program('true'))"), "declared test: a"),
        ("c/meson.build", C_MESON.replace(b"  exe)", b"  exe, should_fail: true)"), "declared test: a"),
        ("vite.config.ts", b"export default { test: { include: [] } }\n", "test"),
    ],
)
async def test_opening_dependencies_does_not_open_the_runner_settings_in_them(
    path: str, content: bytes | None, told: str, asked: Asked
) -> None:
    assert told in await asked.refused({path: content})


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("pyproject.toml", PYPROJECT.replace(b"a>=1", b"a>=2").replace(b'addopts = "-q"', b"# as always\naddopts = '-q'")),
        ("pyproject.toml", PYPROJECT + b'[tool.hatch.envs.test]\ndependencies = ["pytest"]\n'),
        ("package.json", package(version="1.0.1", dependencies={"a": "2", "b": "1"})),
        ("package.json", json.dumps(dict(reversed(PACKAGE.items())), indent=4).encode()),
        ("package.json", scripts(docs="vitepress build")),
        ("setup.cfg", SETUP_CFG.replace(b"name = x", b"name = y\nversion = 2")),
        ("Cargo.toml", CARGO.replace(b'a = "1"', b'a = "2"\nb = "1"') + b"[features]\nx = []\n"),
        ("pom.xml", b"<project><version>2</version></project>\n"),
        ("build.gradle", b"dependencies { implementation 'a:b:1' }\n"),
        ("src/CMakeLists.txt", b"add_library(a a.c)\nadd_test(NAME a COMMAND a)\n"),
        ("c/CMakeLists.txt", C_LISTS + b"add_library(a a.c)\nadd_test(NAME c COMMAND c)\n"),
        ("c/meson.build", b"# tests\n" + C_MESON + b"test('b', exe)\n"),
        ("vite.config.ts", b"export default { plugins: [vue()] }\n"),
    ],
)
async def test_what_a_manifest_changes_beside_them_is_let_in(path: str, content: bytes, asked: Asked) -> None:
    assert codes(await asked.judged({path: content})) == []


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python tools/check.py", "tools/check.py"),
        ("python -B ./tools/check.py --fast", "tools/check.py"),
        ("env A=1 python3 tools/../tools/check.py", "tools/check.py"),
        ("tools/check.sh", "tools/check.sh"),
        ("python -m tools.check", "tools/check.py"),
        ("uv run python tools/check.py", "tools/check.py"),
        ("python -m pytest -q", "pytest.py"),
        ("python -m unittest", "unittest/__main__.py"),
        ("coverage run -m pytest", "pytest/__init__.py"),
        ("pytest -c tools/other.py", "tools/other.py"),
        ("pytest -p tools.other", "tools/other.py"),
        ("jest --config=scripts/run.js", "scripts/run.js"),
        ("node --import ./scripts/run.js --test", "scripts/run.js"),
        ("make test", "mk/rules.mk"),
        ("make", "tools/check.sh"),
        ("make -s test", "tools/check.sh"),
        ("npm test", "scripts/run.js"),
        ("npm run -s test", "scripts/run.js"),
    ],
)
async def test_a_file_that_the_contract_s_command_reads_is_refused(command: str, path: str, asked: Asked) -> None:
    assert "command of the contract reads it" in await asked.refused({path: b"x = 2\n"}, command)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python -m pytest -q", "tools/check.py"),
        ("python tools/check.py src/app.py", "src/app.py"),
        ("make test", "src/app.py"),
        ("make test", "tools/other.py"),
        ("npm run lint", "scripts/run.js"),
        ("node --test scripts/run.js", "scripts/run.js"),
        ("pytest -q src/app.py", "src/app.py"),
    ],
)
async def test_what_the_command_only_works_on_is_let_in(command: str, path: str, asked: Asked) -> None:
    assert codes(await asked.judged({path: b"x = 2\n"}, command)) == []
