"""The verdict on tests that saw an environment with some packages, under a policy of the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gatewright.contracts import EnvironmentInventory, GateReport, codec
from gatewright.contracts.inventory import InventoryPackage
from gatewright.contracts.vocabulary import EnvironmentState, Surroundings
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.tasks.inputs import reference
from tests.attacks.people import Inbox, open_inbox
from tests.attacks.whole_gatekeeper import make_tests
from tests.evidence.test_inventories import TREE
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import Repository

SEEN = EnvironmentState(prefix="/srv/env", place_sha256="1" * 64, files_sha256="2" * 64)


def open_with_policy(
    repository: Repository, folder: Path, name: str, policy: Mapping[str, Any]
) -> AbstractAsyncContextManager[Inbox]:
    """A gatekeeper with the policy file ``name``."""

    def adapt(policies: Path) -> None:
        (policies / name).write_text(json.dumps(policy))

    return open_inbox(repository, folder, clock=HandClock(), adapt=adapt)


async def verdict(
    inbox: Inbox, *packages: InventoryPackage, listed: bool = True, stored: bool = True, error: str | None = None
) -> GateReport:
    """The verdict on tests that saw an environment with these packages."""
    gatekeeper = inbox.gatekeeper
    await inbox.submit()
    await gatekeeper.work(gatekeeper.patch({"README.md": b"another text\n"}))
    report = make_tests(await gatekeeper.review())
    inventory = EnvironmentInventory(trees=(replace(TREE, packages=packages),))
    data = codec.encode(inventory)
    if stored:
        await gatekeeper.bus.put_artifact(data)
    figures = summary_of(inventory, data) if listed else None
    seen = Surroundings(versions={}, host={}, environment=SEEN, inventory=figures)
    artifacts = (*report.artifacts, *([reference(ARTIFACT, data)] if listed and stored else []))
    if error is not None:
        report = replace(report, status="ERROR", failure=error, commands=())
    await gatekeeper.answer("testrunner", replace(report, surroundings=seen, artifacts=artifacts))
    return (await gatekeeper.reports("tests"))[-1]


def package(name: str, licence: str | None) -> InventoryPackage:
    return InventoryPackage(name=name, version="1.0", purl=f"pkg:pypi/{name}@1.0", licence=licence)
