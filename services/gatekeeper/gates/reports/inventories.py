"""The packages that a run's commands saw, as the test runner listed them."""

from __future__ import annotations

from gatewright.artifacts import stored_uri
from gatewright.contracts import EnvironmentInventory, TestReport, codec
from gatewright.contracts.inventory import InventoryPackage
from gatewright.errors import ArtifactError, MalformedError
from gatewright.services.gatekeeper.gates.context import GateContext


async def seen_packages(context: GateContext, tests: TestReport, rule: str, code: str) -> tuple[InventoryPackage, ...] | None:
    """Return the packages of the environment; None when there is nothing to judge.

    Commands that see the system alone have no inventory. Commands that could not run saw nothing; another rule refuses their
    report. An environment whose packages are unknown is refused with ``code`` by ``rule``.

    Raises:
        BusError: the artifact store does not answer.
    """
    seen, report = tests.surroundings, context.report
    if tests.status == "ERROR" or seen is None or (seen.environment is None and seen.inventory is None):
        return None
    if seen.inventory is None:
        report.violate(code, rule, "the test runner listed no packages of the environment")
        return None
    try:
        data = await context.artifacts.get_artifact(stored_uri(seen.inventory.sha256.lower()))
        inventory = codec.decode(data, EnvironmentInventory)
    except (ArtifactError, MalformedError) as error:
        report.violate(code, rule, f"the packages of the environment are unknown: {error.message}")
        return None
    return tuple(package for tree in inventory.trees for package in tree.packages)
