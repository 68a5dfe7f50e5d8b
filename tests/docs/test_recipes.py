"""What the recipes of CONTRIBUTING.md ask for has been done for all that is there: nothing is known in one place only."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gatewright.contracts.reports import GateName
from gatewright.contracts.vocabulary import Executor
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.order_form.run_options import order_rows
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.work_documents.brief import GATES
from tests.docs.pages import code, headings
from tests.docs.snippets import ROOT

KINDS: tuple[str, ...] = get_args(get_type_hints(Executor)["kind"])


def test_every_executor_kind_is_in_the_worker_and_the_report(tmp_path: Path) -> None:
    assert set(make_handler(Settings(home=tmp_path))._executors) == set(KINDS)
    assert tuple(EXECUTOR_KINDS) == KINDS
    assert {kind.option for kind in EXECUTOR_KINDS.values()} <= {row.name for row in order_rows()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_executor_has_its_section(kind: str) -> None:
    assert kind in headings(ROOT / "docs" / "order-changes.md")


def test_every_gate_is_in_the_brief_and_the_architecture_page() -> None:
    asked = set(get_args(GateName)) - {"schema"}
    assert set(GATES) == asked
    assert asked <= set(code(ROOT / "docs" / "architecture.md"))
