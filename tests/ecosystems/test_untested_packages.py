"""Changed packages whose own tests were not among those that ran, in each ecosystem; the tests run for real where they can."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.contracts import TestReport
from gatewright.contracts.reports import UntestedPackage
from gatewright.ecosystems.packages import unmeasured_endings, untested_packages
from gatewright.ecosystems.registry import recognise
from gatewright.rules.reports.proof import in_words
from gatewright.rules.reports.tests import match_commands
from gatewright.rules.reports.untested import broken_by_untested, unmeasured_changes, untested_changes
from tests.ecosystems import test_java, test_rust
from tests.ecosystems.running import Files
from tests.ecosystems.suites import PYTEST, Suite, proof_of
from tests.ecosystems.tools import needs

GO = {
    "go.work": "go 1.21\nuse (\n\t./api\n\t./store\n)\n",
    **{f"{name}/go.mod": f"module example.org/{name}\n\ngo 1.21\n" for name in ("api", "store")},
    **{f"{name}/{name}.go": f"package {name}\n" for name in ("api", "store")},
    **{f"{name}/{name}_test.go": f"package {name}\n" for name in ("api", "store")},
    "api/types/types.go": "package types\n",
}
PNPM = {
    "package.json": '{"private": true, "scripts": {"test": "node --test packages/a"}}',
    "pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n",
    **{f"packages/{name}/package.json": f'{{"name": "{name}"}}' for name in ("a", "b")},
    **{f"packages/{name}/index.js": "" for name in ("a", "b")},
    "packages/a/index.test.js": "",
    "eslint.config.js": "",
}
GRADLE = {
    "settings.gradle.kts": 'include("core", "web:api")\n',
    "core/src/main/java/Core.java": "class Core {}\n",
    "web/api/build.gradle.kts": "plugins { java }\n",
    "web/api/src/main/java/Api.java": "class Api {}\n",
    "web/api/src/test/java/ApiTest.java": "class ApiTest {}\n",
}
DECLARED = {
    "go.work": (GO, ("go", "test", "./api/..."), ("api/api_test.go", "passed"), ("store/store.go",), [("store", True)]),
    "go package": (GO, ("go", "test", "./..."), ("api/api_test.go", "passed"), ("api/types/types.go",), [("api/types", False)]),
    "go tested": (GO, ("go", "test", "./api"), ("api/api_test.go", "passed"), ("api/api.go", "README.md"), []),
    "all skipped": (GO, ("go", "test", "./api"), ("api/api_test.go", "skipped"), ("api/api.go",), [("api", True)]),
    "pnpm": (PNPM, ("pnpm", "test"), ("packages/a/index.test.js", "passed"), ("packages/b/index.js",), [("packages/b", False)]),
    "pnpm top": (PNPM, ("pnpm", "test"), ("packages/a/index.test.js", "passed"), ("eslint.config.js",), []),
    "maven": (
        {"pom.xml": "", **{f"{name}/pom.xml": "" for name in ("a", "b")}, "b/src/main/java/B.java": "class B {}\n"},
        ("mvn", "-B", "-pl", "a", "test"),
        ("a/pom.xml", "passed"),
        ("b/src/main/java/B.java",),
        [("b", False)],
    ),
    "gradle": (
        GRADLE,
        ("gradle", ":web:api:test"),
        ("web/api/src/test/java/ApiTest.java", "passed"),
        ("core/src/main/java/Core.java", "web/api/build.gradle.kts", "web/api/src/main/java/Api.java"),
        [("core", False)],
    ),
}


@pytest.mark.parametrize("case", DECLARED)
async def test_a_changed_package_that_ran_no_test_is_named(case: str) -> None:
    files, argv, (ran, outcome), changed, expected = DECLARED[case]
    argv = ("gradle", "test") if argv[0] == "gradle" else argv
    framework = await recognise(argv, Files(files))
    assert framework is not None
    found = await untested_packages(framework, Files(files), Files({}), changed, {f"{ran}::a": outcome})
    assert [(each.folder, each.has_tests) for each in found] == expected


async def test_a_member_that_the_change_takes_out_of_its_workspace_is_named() -> None:
    framework = await recognise(("pnpm", "test"), Files(PNPM))
    assert framework is not None
    smaller = {**PNPM, "pnpm-workspace.yaml": "packages:\n  - 'packages/a'\n"}
    outcomes = {"packages/a/index.test.js::a": "passed"}
    found = await untested_packages(framework, Files(smaller), Files(PNPM), ("packages/b/index.js",), outcomes)
    assert [each.folder for each in found] == ["packages/b"]


async def test_languages_that_a_command_cannot_judge_are_named_by_ending() -> None:
    framework = await recognise(("go", "test", "./..."), Files(GO))
    assert framework is not None
    changed = ("a.go", "web/b.ts", "web/c.d.ts", "lib/d.rb", "docs/e.py", "vendor/f.c", "README.md", "core/g.c")
    assert unmeasured_endings(framework, changed) == (".c", ".rb", ".ts")


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def refused(suite: Suite, report: TestReport) -> list[tuple[str, bytes | None]]:
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    return [(each.code, each.path) for each in broken_by_untested(ordered)]


RUST = {
    "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["crates/*"]\ndefault-members = ["crates/one"]\n',
    **{f"crates/{name}/Cargo.toml": test_rust.MANIFEST.replace("demo", name) for name in ("one", "two", "bare")},
    **{f"crates/{name}/src/lib.rs": test_rust.LIBRARY.replace("demo::", f"{name}::") for name in ("one", "two")},
    "crates/bare/src/lib.rs": "pub fn one() -> i32 {\n    1\n}\n",
}
RUST_CHANGES = {
    path: (text + "\npub fn more() -> i32 {\n    2\n}\n").encode() for path, text in RUST.items() if path.endswith(".rs")
}


@test_rust.needs_cargo
@pytest.mark.parametrize("words", ["", " -p one"])
async def test_members_outside_of_the_default_members_of_cargo_are_named(words: str, tmp_path: Path) -> None:
    suite = Suite(tmp_path, encoded(RUST), test_rust.TOOLCHAIN)
    report = await suite.tested(RUST_CHANGES, f"cargo test --offline{words}")
    assert report.status == "PASS", suite.printed(report)
    proof = proof_of(report)
    assert proof.untested_packages == (
        UntestedPackage(folder="crates/bare", files=("crates/bare/src/lib.rs",), has_tests=False),
        UntestedPackage(folder="crates/two", files=("crates/two/src/lib.rs",), has_tests=True),
    )
    assert "changed, and no test of its package ran (crates/two): crates/two/src/lib.rs" in in_words(proof)
    assert "changed, and its package has no tests (crates/bare): crates/bare/src/lib.rs" in in_words(proof)
    assert refused(suite, report) == [
        ("untested_change", b"crates/bare/src/lib.rs"),
        ("untested_change", b"crates/two/src/lib.rs"),
    ]


@test_rust.needs_cargo
async def test_members_that_another_command_tests_are_not_named(tmp_path: Path) -> None:
    suite = Suite(tmp_path, encoded(RUST), test_rust.TOOLCHAIN)
    report = await suite.tested(RUST_CHANGES, "cargo test --offline", "cargo test --offline -p two")
    assert refused(suite, report) == [("untested_change", b"crates/bare/src/lib.rs")]


NPM = {
    "package.json": '{"private": true, "workspaces": ["packages/*"]}',
    **{f"packages/{name}/package.json": f'{{"name": "{name}", "scripts": {{"test": "node --test"}}}}' for name in ("a", "b")},
    **{f"packages/{name}/index.js": "exports.one = () => 1;\n" for name in ("a", "b")},
    **{
        f"packages/{name}/index.test.js": (
            "const test = require('node:test');\nconst assert = require('node:assert');\n"
            "const { one } = require('./index.js');\ntest('one', () => assert.equal(one() > 0, true));\n"
        )
        for name in ("a", "b")
    },
}


@needs("node", "npm")
async def test_members_that_npm_leaves_out_are_named_and_moved_files_are_not(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {**encoded(NPM), "packages/b/old.js": b"exports.x = 1;\n"})
    changed = b"exports.one = () => 2;\n"
    changes = {"packages/a/index.js": changed, "packages/b/index.js": changed, "packages/b/old.js": None}
    report = await suite.tested({**changes, "packages/b/new.js": b"exports.x = 1;\n"}, "npm test -w a")
    assert report.status == "PASS", suite.printed(report)
    assert proof_of(report).untested_packages == (
        UntestedPackage(folder="packages/b", files=("packages/b/index.js",), has_tests=True),
    )


MAVEN = {
    ".mvn/maven.config": test_java.FILES[".mvn/maven.config"],
    "pom.xml": test_java.POM.replace(
        "<version>1</version>",
        "<version>1</version><packaging>pom</packaging><modules><module>a</module><module>b</module></modules>",
    ),
    **{
        f"{name}/pom.xml": '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<parent><groupId>demo</groupId><artifactId>demo</artifactId><version>1</version></parent>"
        f"<artifactId>{name}</artifactId></project>\n"
        for name in ("a", "b")
    },
    **{f"{name}/{path}": text for name in ("a", "b") for path, text in test_java.FILES.items() if path.startswith("src/")},
}


@test_java.needs_maven
async def test_modules_that_maven_leaves_out_are_named(tmp_path: Path) -> None:
    suite = Suite(tmp_path, encoded(MAVEN))
    source = "src/main/java/demo/Add.java"
    changed = MAVEN[f"a/{source}"].replace("one + other", "other + one").encode()
    report = await suite.tested({f"{name}/{source}": changed for name in ("a", "b")}, "mvn -B -pl a test")
    assert report.status == "PASS", suite.printed(report)
    assert [(each.folder, each.has_tests) for each in proof_of(report).untested_packages] == [("b", True)]


UV = {
    "pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n',
    **{f"packages/{name}/pyproject.toml": f'[project]\nname = "{name}"\nversion = "1"\n' for name in ("a", "b")},
    **{f"packages/{name}/src/{name}/__init__.py": "def one():\n    return 1\n" for name in ("a", "b")},
    **{
        f"packages/{name}/tests/test_{name}.py": f"import {name}\n\n\ndef test_one():\n    assert {name}.one() > 0\n"
        for name in ("a", "b")
    },
}


async def test_a_member_of_uv_that_no_test_loads_is_named_beside_other_languages(tmp_path: Path) -> None:
    suite = Suite(tmp_path, encoded({**UV, **NPM}))
    changes = {f"packages/{name}/src/{name}/__init__.py": b"def one():\n    return 2\n" for name in ("a", "b")}
    changes["packages/a/index.js"] = b"exports.one = () => 2;\n"
    report = await suite.tested({**changes, "lib/x.rb": b"x = 1\n"}, f"{PYTEST} packages/a", "npm test -w a")
    assert report.status == "PASS", suite.printed(report)
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    assert untested_changes(ordered) == {"changed, and loaded by no test": ["packages/b/src/b/__init__.py"]}
    assert unmeasured_changes(ordered) == [".rb"]
