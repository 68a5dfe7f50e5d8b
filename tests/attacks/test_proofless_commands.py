"""Commands that would succeed whatever the candidate is like: refused where a contract asks for strict acceptance."""

from __future__ import annotations

import pytest

from gatewright.services.gatekeeper.policies.load import Policies
from tests.attacks.judged_commands import refused


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "sleep 1",
        "test -d .",
        "test -e ./",
        "test -r ./.",
        "ruff check --exit-zero src",
        "ruff check -e src",
        "ruff check --fix src",
        "ruff check --fix-only src",
        "ruff check --diff src",
        "ruff check --ignore=ALL src",
        "ruff check --exclude=* src",
        "ruff format src",
        "black src",
        "black --diff src",
        "black --check --include=zzz src",
        "go test -run=^ ./...",
        "go test --skip=. ./...",
        "go test -count=0 ./...",
        "cargo test no_such_test",
        "cargo test -- --list",
        "cargo test -- --help",
        "cargo test -- no_such_test",
        "npm test --if-present",
        "npm test -- --help",
        "npm test -- --version",
        "npm test -- --passWithNoTests",
        "npm test -- --listTests",
        "node --test",
        "node --test --test-name-pattern=zzz src",
        "npm run",
        "npm run test -- --passWithNoTests",
        "yarn run",
        "pnpm run",
        "vitest run -t zzz",
        "npx --no-install vitest run --testNamePattern=zzz",
        "jest -t zzz",
        "mocha -g zzz",
        "mocha --grep=zzz --invert",
        "nox -k zzz",
        "nox -t zzz",
        "uv run python -m unittest -k zzz",
        "cargo clippy -- -A warnings",
        "cargo clippy -- --cap-lints allow",
        "cargo nextest run zzz",
        "cargo nextest run -E zzz",
        "gradle test --tests=zzz",
        "ctest -R zzz",
        "ctest --exclude-regex=x",
        "meson test zzz",
        "meson test --suite=zzz",
        "rspec -e zzz",
        "bundle exec rspec --tag=zzz",
        "phpunit --filter=zzz",
        "phpunit --testsuite zzz",
        "python -O tests/check.py",
        "python -OO tests/check.py",
        "python -bO tests/check.py",
        "python -m compileall",
        "python -m compileall -q",
        "python -m doctest -o SKIP src/a.py",
        "python -m unittest -k zzz",
        "python -m unittest discover -p zzz",
        "grep -c x src/a.py",
        "grep -L x src/a.py",
        "grep -v zzz src/a.py",
        "grep -q '' src/a.py",
        "grep -q . src/a.py",
        "grep -q ^ src/a.py",
        "grep -q x* src/a.py",
        "grep -q 'x\\?' src/a.py",
        "grep -q [^q] src/a.py",
        "grep -qE (abc)? src/a.py",
        "grep -qE a{0} src/a.py",
        "grep -q 'a\\{0,1\\}' src/a.py",
        "grep -q -e abc -e . src/a.py",
        "grep -q '\\w' src/a.py",
    ],
)
def test_a_test_that_proves_nothing_under_strict_acceptance(text: str, policies: Policies) -> None:
    assert refused(policies, test=text, strict=True) == ["command_not_allowed"]


def test_an_unproven_command_passes_where_no_proof_is_required(policies: Policies) -> None:
    for text in ("true", "ruff check --fix src", "cargo test one", "npm test -- --help", "node --test", "grep -q . src/a.py"):
        assert refused(policies, test=text) == [], text
