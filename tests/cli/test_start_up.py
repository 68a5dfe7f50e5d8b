"""Commands that people wait for, and hooks that run at each commit, load what they need and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: None of the commands below talks to a bus, to a model or to a person's terminal in colours, writes metrics, or signs.
NEVER = (
    "aiohttp",
    "cryptography",
    "git",
    "jsonschema",
    "nats",
    "prometheus_client",
    "rich",
    "structlog",
    "textual",
    "tree_sitter",
)
#: What the catalogue of secrets and the policies need, and the version does not.
OF_THE_GATES = ("kingfisher_sdk", "msgspec", "pydantic", "gatewright.contracts", "gatewright.services")


def loaded(program: str, names: tuple[str, ...]) -> list[str]:
    """Which of these modules a fresh interpreter has loaded after ``program``."""
    told = f"\nimport sys\nprint(*(name for name in {names!r} if name in sys.modules))"
    argv = [sys.executable, "-P", "-c", program + told]
    return subprocess.run(argv, capture_output=True, check=True, text=True).stdout.splitlines()[-1].split()


def test_the_version_is_shown_without_loading_what_commands_need() -> None:
    program = """
import contextlib, sys
from gatewright.app.cli.main import main
sys.argv = ["gatewright", "--version"]
with contextlib.suppress(SystemExit):
    main()
"""
    assert loaded(program, NEVER + OF_THE_GATES) == []


def test_help_is_given_without_what_draws_a_board() -> None:
    program = """
import contextlib, sys
from gatewright.app.cli.main import main
sys.argv = ["gatewright", "--help"]
with contextlib.suppress(SystemExit):
    main()
"""
    assert loaded(program, ("gatewright.app.top", "textual")) == []


@pytest.mark.parametrize("module", ["gatewright.services.gatekeeper.dry_run", "gatewright.services.pm.compile_request"])
def test_check_loads_nothing_that_only_running_roles_need(module: str) -> None:
    program = f"import gatewright.app.cli.check, gatewright.app.cli.dry_run, {module}"
    assert loaded(program, NEVER) == []
