"""Licences of the packages that commands saw, judged by the operator's policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gatewright.services.gatekeeper.gates.reports.packages import is_refused
from gatewright.services.gatekeeper.policies.packages import LicencesPolicy
from tests.attacks.people import Inbox
from tests.gatekeeper.gates.inventories import open_with_policy, package, verdict
from tests.git.repositories import MakeRepository

Opened = Callable[..., AbstractAsyncContextManager[Inbox]]
REFUSED = frozenset({"gpl-3.0-only", "bsd, mit"})


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-only",
        "gpl-3.0-ONLY",
        "MIT AND GPL-3.0-only",
        "(MIT OR Apache-2.0) AND (GPL-3.0-only)",
        "GPL-3.0-only WITH Classpath-exception-2.0",
        "GPL-3.0-only OR GPL-3.0-only",
        "BSD, MIT",
    ],
)
def test_a_refused_licence_is_found_in_an_expression(licence: str) -> None:
    assert is_refused(licence, REFUSED)


@pytest.mark.parametrize(
    "licence",
    ["MIT", "MIT OR GPL-3.0-only", "MIT AND (GPL-3.0-only OR Apache-2.0)", "GPLv3 (or later)", "((((", "AND", "x" * 400],
)
def test_other_licences_and_a_choice_are_permitted(licence: str) -> None:
    assert not is_refused(licence, REFUSED)


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Opened:
    return lambda policy: open_with_policy(make_repository(), tmp_path, "licences.json", policy.model_dump())


def policy(**fields: object) -> LicencesPolicy:
    return LicencesPolicy.model_validate({"version": "1", "refuse": ("GPL-3.0-only",), **fields})


async def test_a_package_with_a_refused_licence_is_named(opened: Opened) -> None:
    async with opened(policy()) as inbox:
        report = await verdict(inbox, package("good", "MIT"), package("bad", "GPL-3.0-only"), package("none", None))
    assert [(each.code, each.detail) for each in report.violations] == [
        ("licence_refused", "bad 1.0: its licence is GPL-3.0-only")
    ]


async def test_an_excepted_package_passes(opened: Opened) -> None:
    async with opened(policy(except_packages=("Bad",))) as inbox:
        assert (await verdict(inbox, package("bad", "GPL-3.0-only"))).verdict == "PASS"


async def test_undeclared_licences_can_be_refused(opened: Opened) -> None:
    async with opened(policy(refuse=(), undeclared="refused")) as inbox:
        report = await verdict(inbox, package("none", None))
    assert [each.detail for each in report.violations] == ["none 1.0: it declares no licence"]


@pytest.mark.parametrize("case", ["unlisted", "not stored"])
async def test_an_environment_without_an_inventory_is_refused(opened: Opened, case: str) -> None:
    async with opened(policy()) as inbox:
        report = await verdict(inbox, listed=case != "unlisted", stored=case != "not stored")
    assert "licences_unknown" in {each.code for each in report.violations}


async def test_commands_that_could_not_run_have_no_licences(opened: Opened) -> None:
    async with opened(policy()) as inbox:
        report = await verdict(inbox, listed=False, error="sandbox_unavailable: there is no user namespace")
    assert [each.code for each in report.violations] == ["sandbox_unavailable"]


async def test_without_the_policy_no_licence_is_judged(opened: Opened) -> None:
    async with opened(policy(refuse=())) as inbox:
        report = await verdict(inbox, package("bad", "GPL-3.0-only"))
    assert report.verdict == "PASS"
    assert "licences" not in {each.rule for each in report.rules}
