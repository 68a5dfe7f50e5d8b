"""A pack can require the id of a requirement, which each landed commit then holds in its subject or a trailer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import RunRequest
from gatewright.contracts.task_contract import Inputs
from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.contract.policy import judge_request
from gatewright.services.gatekeeper.policies.load import load
from tests.attacks.whole_gatekeeper import contract_on, open_gatekeeper
from tests.factories import make_request
from tests.gatekeeper.contexts import make_context
from tests.git.repositories import MakeRepository

_PATTERN = r"\bPAY-[A-Z]+-\d{3,}\b"


def policies_requiring(folder: Path, pattern: object = _PATTERN) -> Path:
    shutil.copytree(policy_directory(), folder)
    packs: dict[str, Any] = json.loads((folder / "policy_packs.json").read_text())
    packs["low"]["requirement"] = pattern
    (folder / "policy_packs.json").write_text(json.dumps(packs))
    return folder


def codes_of(request: RunRequest, folder: Path) -> set[str]:
    """The codes of what the policy gate finds in a request under these policies."""
    context = make_context("run-0123456789", "policy", load(folder))
    judge_request(context, request)
    return {each.code for each in context.report.violations}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("Fix the rounding", ()),
        ("Fix PAY-ui-12", ()),
        ("Fix the rounding", ("SHOP-UI-012",)),
        ("Fix the rounding\n\n" + "of a cart " * 8 + "PAY-UI-012", ()),
        ("Fix" + " x" * 29 + " PAY-UI-01234", ()),
        ("PAY-\x00UI-012", ()),
        ("PAY-" + "A" * 100_000 + "-", ()),
    ],
    ids=["none", "another-form", "another-project", "beyond-the-subject", "cut", "split-by-control", "long"],
)
async def test_a_change_without_the_requirement_is_refused_before_any_work(
    words: str, named: tuple[str, ...], make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with open_gatekeeper(make_repository(), tmp_path, policies=policies_requiring(tmp_path / "p")) as gatekeeper:
        contract = contract_on(gatekeeper.repository, inputs=Inputs(spec=words, artifacts=()), requirement_ids=named)
        run = await gatekeeper.submit(contract)
        (report,) = await gatekeeper.reports("policy")
    assert (run.status, run.tasks, report.code) == ("FAILED", {}, "requirement_missing")
    assert "requirement_missing" in codes_of(make_request(request=words, requirement_ids=named), tmp_path / "p")


@pytest.mark.parametrize(
    ("words", "named", "key"),
    [
        ("Fix PAY-UI-012: round once", (), "%s"),
        ("Fix the rounding", ("SHOP-UI-001", "PAY-UI-012"), "%(trailers:key=Gatewright-Requirement,valueonly)"),
    ],
    ids=["subject", "trailer"],
)
async def test_the_landed_commit_holds_the_requirement(
    words: str, named: tuple[str, ...], key: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path, policies=policies_requiring(tmp_path / "p")) as gatekeeper:
        await gatekeeper.submit(contract_on(repository, inputs=Inputs(spec=words, artifacts=()), requirement_ids=named))
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
        await gatekeeper.review()
        run = await gatekeeper.test()
    assert run.landed is not None
    assert b"PAY-UI-012" in repository.git("log", "-1", f"--format={key}", run.landed.commit)
    assert "requirement_missing" not in codes_of(make_request(request=words, requirement_ids=named), tmp_path / "p")


def test_a_run_that_lands_nothing_needs_no_requirement(tmp_path: Path) -> None:
    folder = policies_requiring(tmp_path / "p")
    request = make_request(task_type="PLAN", request="Plan the rounding")
    assert "requirement_missing" not in codes_of(request, folder)


@pytest.mark.parametrize("pattern", ["(", r"(?=x)", r"(a)\1", 7])
def test_a_pattern_that_cannot_be_used_refuses_the_policies(pattern: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="requirement"):
        load(policies_requiring(tmp_path / "p", pattern))
