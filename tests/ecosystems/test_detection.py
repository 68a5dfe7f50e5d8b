"""Which command is proposed to a person who named none, told from a repository's files."""

from __future__ import annotations

import json

import pytest

from gatewright.ecosystems.detection import first_way, proposed_commands
from tests.ecosystems.running import Files

UNITTEST = "import unittest\n"
CASES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "pytest by its settings": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": ""},
        ("python -m pytest -q",),
    ),
    "pytest by a conftest": ({"tests/conftest.py": "", "tests/test_a.py": UNITTEST}, ("python -m pytest -q",)),
    "pytest by a requirement": ({"requirements-dev.txt": "pytest==8\n", "test_a.py": UNITTEST}, ("python -m pytest -q",)),
    "unittest at the top": ({"test_a.py": UNITTEST}, ("python -m unittest",)),
    "unittest in a package": ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, ("python -m unittest",)),
    "unittest in a folder": ({"tests/test_a.py": UNITTEST}, ("python -m unittest discover -s tests",)),
    "python without a test": ({"pyproject.toml": "[tool.pytest.ini_options]\n", "a.py": ""}, ()),
    "npm": ({"package.json": json.dumps({"scripts": {"test": "mocha"}}), "package-lock.json": "{}"}, ("npm test",)),
    "yarn": ({"package.json": json.dumps({"scripts": {"test": "jest"}}), "yarn.lock": ""}, ("yarn test",)),
    "pnpm": ({"package.json": json.dumps({"scripts": {"test": "jest"}}), "pnpm-lock.yaml": ""}, ("pnpm test",)),
    "what npm init writes": (
        {"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})},
        (),
    ),
    "node without a script": ({"package.json": '{"name": "x"}', "test/a.test.js": ""}, ("node --test",)),
    "a package.json that is none": ({"package.json": "[" * 5000, "test/a.test.js": ""}, ()),
    "cargo": ({"Cargo.toml": ""}, ("cargo test",)),
    "go": ({"go.mod": ""}, ("go test ./...",)),
    "make test": ({"Makefile": "VAR := test\nall: build\n\ntest check: build\n\tctest\n"}, ("make test", "make check")),
    "a makefile that another comes before": ({"GNUmakefile": "all:\n", "Makefile": "test:\n"}, ()),
    "a variable is no target": ({"Makefile": "test := 1\ncheck ?= 2\n\ttest:\n"}, ()),
    "maven": ({"pom.xml": ""}, ("mvn test",)),
    "cmake": (
        {"CMakeLists.txt": "project(a C)\nenable_testing()\n"},
        ("cmake -S . -B build", "cmake --build build", "ctest --test-dir build"),
    ),
    "cmake without a test": ({"CMakeLists.txt": "project(a C)\n"}, ()),
    "cmake through make": ({"CMakeLists.txt": "enable_testing()\n", "Makefile": "test:\n\tctest\n"}, ("make test",)),
    "meson": ({"meson.build": ""}, ("meson setup build", "meson test -C build")),
    "minitest": ({"Rakefile": "", "test/test_a.rb": ""}, ("rake test",)),
    "rspec with bundler": ({"Gemfile.lock": "", "spec/a_spec.rb": ""}, ("bundle exec rspec",)),
    "phpunit": ({"phpunit.xml.dist": ""}, ("phpunit",)),
    "gradle": ({"build.gradle.kts": ""}, ("gradle test",)),
    "several": (
        {"Makefile": "test:\n\tcargo test\n", "Cargo.toml": "", "tests/test_a.py": "import pytest\n"},
        ("python -m pytest -q", "cargo test", "make test"),
    ),
    "nothing": ({"README.md": "run make test"}, ()),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_repositorys_test_command_is_detected_from_its_files(name: str) -> None:
    files, expected = CASES[name]
    assert await proposed_commands(Files(files)) == expected


@pytest.mark.parametrize(
    ("proposed", "way"),
    [
        ((), ()),
        (("pytest", "make test"), ("pytest",)),
        (("cmake -S . -B build", "cmake --build build", "ctest --test-dir build", "phpunit"), 3),
    ],
)
def test_what_builds_a_suite_is_proposed_with_what_tests_it(proposed: tuple[str, ...], way: tuple[str, ...] | int) -> None:
    assert first_way(proposed) == (proposed[:way] if isinstance(way, int) else way)
