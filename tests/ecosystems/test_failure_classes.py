"""A failed command has the class of what it runs, through wrappers, and a word of its own decides nothing."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.failure_classes import class_of

_COMMANDS = {
    "lint": ("ruff check .", "python -m ruff check", "uv run --with x flake8", "npx --no-install eslint src", "go vet ./...",
             "cargo clippy -- -D warnings", "npm run lint", "yarn lint:css", "tox -e lint", "make lint", "hatch run lint:all"),
    "typecheck": ("mypy", "/usr/bin/mypy src", "env A=b pyright", "tsc --noEmit", "npx tsc -p . --noEmit", "cargo check",
                  "nox -s typing", "npm run typecheck"),
    "build": ("cargo build", "go build ./...", "tsc -p .", "npm run build", "make", "cmake --build build", "python -m build",
              "mvn -q compile", "meson compile -C out"),
    "test": ("pytest -q", "python -m unittest", "coverage run -m pytest", "go test ./...", "cargo nextest run", "npm test",
             "npm run test:unit", "make check", "ctest", "mvn test", "tox"),
    "command": ("python check.py", "./run.sh", "true", "python ruff", "sh mypy", "make deploy", "echo pytest"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "command"), [(kind, each) for kind, every in _COMMANDS.items() for each in every])
def test_a_command_has_the_class_of_what_it_runs(kind: str, command: str) -> None:
    assert class_of(command.split()) == kind


def test_a_framework_that_ran_makes_it_a_test() -> None:
    assert class_of(("python", "check.py"), "unittest") == "test"


@pytest.mark.parametrize("argv", [(), ("",), ("npx",), ("env",), ("python", "-m"), ("uv", "run"), ("make", ""), ("\udcff",)])
def test_odd_words_have_a_class_too(argv: tuple[str, ...]) -> None:
    assert class_of(argv) in {"command", "build", "test"}
