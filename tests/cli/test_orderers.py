"""Which person orders a run at the command line and through a coding host: known here, and not the document's to choose."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.access import HostAccess
from gatewright.app.cli.hosts.run_tools import SubmittingTools
from gatewright.app.cli.run.request import prepare
from gatewright.app.cli.user_git import with_orderer
from gatewright.contracts import RunRequest, TaskContract
from gatewright.order_form.run_options import RunOptions
from tests.cli.conftest import MakeRepository
from tests.factories import make_contract, make_request

ACCOUNT = pwd.getpwuid(os.geteuid()).pw_name
PLAIN = RunOptions(request="tidy", allow=("README.md",), commands=("python tidy.py",), tests=("true",))


@pytest.fixture
def ana(monkeypatch: pytest.MonkeyPatch) -> str:
    """Her address, as git has it."""
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ana")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ana@example.org")
    return "ana@example.org"


def test_a_run_is_ordered_by_the_account_and_gits_address(make_repository: MakeRepository, ana: str) -> None:
    assert prepare(PLAIN, make_repository("project")).request.ordered_by == (ACCOUNT, ana)


def test_without_an_address_the_account_orders(make_repository: MakeRepository) -> None:
    assert prepare(PLAIN, make_repository("project")).request.ordered_by == (ACCOUNT,)


@pytest.mark.parametrize("make", [make_request, make_contract])
def test_who_submits_a_document_orders_it(make: Callable[..., RunRequest | TaskContract], tmp_path: Path, ana: str) -> None:
    assert with_orderer(make(), tmp_path).ordered_by == (ACCOUNT, ana)
    assert with_orderer(make(ordered_by=("ben",)), tmp_path).ordered_by == ("ben",)


@pytest.mark.parametrize("known", [("ana", "ana@example.org"), ()])
def test_a_coding_host_names_no_other_person(tmp_path: Path, known: tuple[str, ...]) -> None:
    """What a model writes into the further fields of a run is not who ordered it."""
    access = HostAccess(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), tmp_path, ordered_by=known)
    claims = {"ordered_by": ["ben"], "requested_by": "ben"}
    document = SubmittingTools(access)._document({"request": "x", "agent": "codex"}, claims)
    assert (document["ordered_by"], document["requested_by"]) == (known, "mcp host")
