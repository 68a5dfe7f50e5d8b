"""Settings of linters inside a manifest, changed beside the work, through the real gate; and what only looks so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Scope
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import RealGate, codes, open_gate
from tests.git.repositories import MakeRepository

PYPROJECT = b'[project]\nname = "x"\ndependencies = ["a>=1"]\n\n[tool.ruff]\nline-length = 100\n'
PACKAGE = {"name": "x", "version": "1.0.0", "eslintConfig": {"rules": {}}, "dependencies": {"a": "1"}}
SETUP_CFG = b"[metadata]\nname = x\n\n[flake8]\nmax-line-length = 100\n"
CARGO = b'[package]\nname = "x"\n[lints.clippy]\nall = "deny"\n'
TSCONFIG = b'{"compilerOptions": {"strict": true, "target": "es2022"}} // c\n'
FILES = {
    "pyproject.toml": PYPROJECT,
    "package.json": json.dumps(PACKAGE).encode(),
    "setup.cfg": SETUP_CFG,
    "Cargo.toml": CARGO,
    "tsconfig.json": TSCONFIG,
    "src/a.csproj": b"<Nullable>enable</Nullable>\n",
}


class Linters:
    """The gate over one repository whose dependencies are opened."""

    def __init__(self, make: MakeRepository, folder: Path) -> None:
        self._make, self._folder = make, folder

    async def judged(self, files: dict[str, bytes | None]) -> GateReport:
        async with self.open() as gate:
            return await gate.diff(await gate.worked(gate.patch(files)))

    @asynccontextmanager
    async def open(self, opened: Sequence[str] = ()) -> AsyncIterator[RealGate]:
        scope = Scope(allow_dependency_change=True, allow_protected_paths=tuple(opened))
        paths = tuple(sorted({name.partition("/")[0] for name in FILES} | {"deno.json", "new"}))
        async with open_gate(self._make(files=FILES), self._folder, scope=scope, allowed_paths=paths) as gate:
            yield gate


@pytest.fixture
def linters(make_repository: MakeRepository, tmp_path: Path) -> Linters:
    return Linters(make_repository, tmp_path)


def package(**changes: object) -> bytes:
    return json.dumps({**PACKAGE, **changes}).encode()


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("pyproject.toml", PYPROJECT.replace(b"100", b"999"), "tool.ruff"),
        ("pyproject.toml", PYPROJECT.partition(b"[tool")[0], "tool.ruff"),
        ("pyproject.toml", PYPROJECT + b"[tool.mypy]\nignore_errors = true\n", "tool.mypy"),
        ("pyproject.toml", PYPROJECT + b'[tool.pyright]\ntypeCheckingMode = "off"\n', "tool.pyright"),
        ("pyproject.toml", PYPROJECT + b"[tool.bandit]\nskips = ['B307']\n", "tool.bandit"),
        ("pyproject.toml", PYPROJECT + b"[tool.pylint.main]\nignore = ['src']\n", "tool.pylint"),
        ("pyproject.toml", PYPROJECT + b"not toml", "cannot be read"),
        ("pyproject.toml", PYPROJECT + b"#" * (300 << 10), "cannot be read (it is too large)"),
        ("package.json", package(eslintConfig={"rules": {"no-eval": 0}}), "eslintConfig"),
        ("package.json", package(prettier={}), "prettier"),
        ("package.json", package(**{"lint-staged": {}}), "lint-staged"),
        ("package.json", package(eslintIgnore=["src"]), "eslintIgnore"),
        ("package.json", b"{", "cannot be read"),
        ("setup.cfg", SETUP_CFG.replace(b"100", b"999"), "flake8"),
        ("setup.cfg", SETUP_CFG + b"[mypy-src.*]\nignore_errors = true\n", "mypy-src"),
        ("Cargo.toml", CARGO.replace(b"deny", b"allow"), "lints"),
        ("tsconfig.json", TSCONFIG.replace(b"true", b"false"), "compilerOptions.strict"),
        ("tsconfig.json", TSCONFIG.replace(b"}}", b'}, "exclude": ["src"]}'), "exclude"),
        ("deno.json", b'{"lint": {"exclude": ["src/"]}}', "lint"),
        ("src/a.csproj", b"<Nullable>disable</Nullable>\n", "Nullable"),
        ("new/build.gradle", b"detekt { ignoreFailures = true }\n", "detekt"),
        ("new/pom.xml", b"<failsOnError>false</failsOnError>\n", "failsOnError"),
    ],
)
async def test_opening_dependencies_does_not_open_linter_settings(
    path: str, content: bytes, told: str, linters: Linters
) -> None:
    report = await linters.judged({path: content})
    assert set(codes(report)) == {"path_protected"}
    assert any(
        told in each.detail
        for each in report.violations
        if each.rule in {"protected_paths.protected", "protected_paths.runner"}
    )


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("pyproject.toml", PYPROJECT.replace(b"a>=1", b"a>=2").replace(b"[tool.ruff]", b"[tool.ruff]  # as always")),
        ("pyproject.toml", PYPROJECT + b"[tool.towncrier]\nname = 'x'\n"),
        ("package.json", package(version="1.0.1", dependencies={"a": "2"})),
        ("setup.cfg", SETUP_CFG.replace(b"name = x", b"name = y")),
        ("Cargo.toml", CARGO + b'[dependencies]\nb = "1"\n'),
        ("tsconfig.json", TSCONFIG.replace(b"es2022", b"es2023")),
        ("src/a.csproj", b"<Nullable>enable</Nullable>\n<Version>2</Version>\n"),
    ],
)
async def test_other_parts_of_a_manifest_are_let_in(path: str, content: bytes, linters: Linters) -> None:
    assert codes(await linters.judged({path: content})) == []


async def test_linter_settings_are_opened_by_path_and_named(linters: Linters) -> None:
    changed: dict[str, bytes | None] = {"pyproject.toml": PYPROJECT.replace(b"100", b"999")}
    assert retry_options(await linters.judged(changed)) == ("--allow-tests", "pyproject.toml")


async def test_opened_linter_settings_are_named(linters: Linters) -> None:
    async with linters.open(("pyproject.toml",)) as gate:
        report = await gate.diff(await gate.worked(gate.patch({"pyproject.toml": PYPROJECT.replace(b"100", b"999")})))
    assert report.verdict == "PASS"
    assert any("pyproject.toml" in rule.detail for rule in report.rules if rule.rule == "protected_paths.protected")
