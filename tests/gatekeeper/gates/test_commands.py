"""The command gate: what may run, and the ways around it that are closed."""

from __future__ import annotations

import pytest

from gatewright.errors import CommandRefusedError
from gatewright.services.gatekeeper.gates.commands.gate import check_command
from gatewright.services.gatekeeper.policies.commands import Use
from gatewright.services.gatekeeper.policies.load import Policies


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("pytest -q tests/unit", "acceptance"),
        ("python -m pytest -x", "acceptance"),
        ("python -m unittest discover", "acceptance"),
        ("python3 -m pytest", "acceptance"),
        ("npm test", "acceptance"),
        ("python tools/codemod.py {paths}", "executor"),
        ("ruff check --fix --isolated {paths}", "executor"),
    ],
)
def test_an_ordinary_command_is_allowed(text: str, use: Use, policies: Policies) -> None:
    assert check_command(text, use, policies).prefix[0] == text.split(maxsplit=1)[0].rstrip("3")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pytest; rm x", "command_not_allowed"),
        ("pytest && true", "command_not_allowed"),
        ("pytest | tee log", "command_not_allowed"),
        ("pytest $(id)", "command_not_allowed"),
        ("pytest `id`", "command_not_allowed"),
        ("pytest > out", "command_not_allowed"),
        ("pytest\nid", "command_not_allowed"),
        ("/opt/pytest", "command_not_allowed"),
        ("./pytest", "command_not_allowed"),
        ("python -c 'import os'", "command_not_allowed"),
        ("python -cimport", "command_not_allowed"),
        ("python3 -c 'import os'", "command_not_allowed"),
        ("python -", "command_not_allowed"),
        ("python", "command_not_allowed"),
        ("python -m http.server", "command_not_allowed"),
        ("python /etc/x.py", "command_not_allowed"),
        ("python ../x.py", "command_not_allowed"),
        ("pytest -p evil", "command_not_allowed"),
        ("pytest -pevil", "command_not_allowed"),
        ("pytest --rootdir=/", "command_not_allowed"),
        ("pytest -c /tmp/x.ini", "command_not_allowed"),
        ("make test -C /", "command_not_allowed"),
        ("PYTHONSTARTUP=x python a.py", "command_not_allowed"),
        ("bash -c true", "command_not_allowed"),
        ("env pytest", "command_not_allowed"),
        ("sudo pytest", "action_forbidden"),
        ("curl example.org", "action_forbidden"),
        ("rm -rf build", "action_forbidden"),
        ("", "command_not_allowed"),
    ],
)
def test_a_way_around_the_allowlist_is_refused(text: str, code: str, policies: Policies) -> None:
    with pytest.raises(CommandRefusedError) as refused:
        check_command(text, "acceptance", policies)
    assert refused.value.reason == code


def test_an_executor_command_is_no_acceptance_command(policies: Policies) -> None:
    with pytest.raises(CommandRefusedError):
        check_command("sed -i s/a/b/ src/a", "acceptance", policies)


@pytest.mark.parametrize(
    "text",
    [
        "ruff check --output-file=../out.sarif src",
        "ruff check -o /tmp/out.sarif src",
        "ruff check --output-file src/a.py src",
        "bandit -r src -f sarif -o .git/config",
        "eslint --format=./evil.js src",
        "golangci-lint run --output.sarif.path=/etc/x.sarif",
    ],
)
def test_an_output_file_of_an_audit_stays_inside(text: str, policies: Policies) -> None:
    with pytest.raises(CommandRefusedError):
        check_command(text, "acceptance", policies)


@pytest.mark.parametrize(
    "text",
    [
        "ruff check --output-format sarif --output-file out.sarif --exit-zero src",
        "bandit -r src -f sarif -o build/out.sarif --exit-zero",
        "eslint --format=@microsoft/eslint-formatter-sarif -o out.sarif src",
        "golangci-lint run --output.sarif.path=out.sarif --issues-exit-code=0",
    ],
)
def test_tools_may_write_the_report_of_an_audit(text: str, policies: Policies) -> None:
    assert check_command(text, "acceptance", policies).prefix


def test_a_test_that_proves_nothing_is_refused_where_acceptance_is_strict(policies: Policies) -> None:
    assert check_command("true", "acceptance", policies).proof.never
    with pytest.raises(CommandRefusedError, match="proves nothing"):
        check_command("true", "acceptance", policies, strict=True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("npx cowsay", "it may start vitest, jest"),
        ("cargo bench", "'cargo test'"),
        ("unknown-program", "for acceptance commands; allowed programs are"),
    ],
)
def test_the_refusal_of_a_command_names_a_listed_one(text: str, named: str, policies: Policies) -> None:
    with pytest.raises(CommandRefusedError) as refused:
        check_command(text, "acceptance", policies)
    assert named in refused.value.message
