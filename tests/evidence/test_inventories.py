"""The inventory of an environment in a bundle: verified with the figures of the report, and found when it was forged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import EnvironmentInventory, TestReport, codec
from gatewright.contracts.inventory import InventoryPackage, InventoryTree
from gatewright.contracts.vocabulary import Surroundings
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.recorded_runs import RecordedRun, make_success

PACKAGE = InventoryPackage(name="needed", version="1.0", purl="pkg:pypi/needed@1.0", licence="MIT")
TREE = InventoryTree(
    ecosystem="python",
    version="3.11.7",
    packages=(PACKAGE,),
    unknown_files=1,
    unknown=("bin/planted",),
    altered_files=0,
    altered=(),
    faults=(),
)
INVENTORY = EnvironmentInventory(trees=(TREE,))
Forge = Callable[[TestReport], TestReport]


@dataclass
class InventoriedRun(RecordedRun):
    """A run whose test report has an inventory, as ``forge`` leaves it; ``stored`` are other bytes in its place."""

    forge: Forge | None = None
    stored: bytes = codec.encode(INVENTORY)

    def tests(self, task_id: str) -> e.LabelledEvent:
        event = super().tests(task_id)
        assert isinstance(event.event, e.TestsReceived)
        report = event.event.report
        known = replace(summary_of(INVENTORY, codec.encode(INVENTORY)), sha256=summary_of(INVENTORY, self.stored).sha256)
        report = replace(
            report,
            artifacts=(*report.artifacts, self.artifact(ARTIFACT, self.stored)),
            surroundings=Surroundings(versions={}, host={}, inventory=known),
        )
        return e.LabelledEvent(e.TestsReceived(report=self.forge(report) if self.forge is not None else report))


async def bundle_of(folder: Path, signer: Signer, forge: Forge | None = None, stored: bytes | None = None) -> Path:
    run = InventoriedRun(forge=forge, stored=stored or codec.encode(INVENTORY))
    make_success(run=run)
    made = await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)
    return Path(made.location)


def _figures(**changes: int | str) -> Forge:
    def forged(report: TestReport) -> TestReport:
        assert report.surroundings is not None
        assert report.surroundings.inventory is not None
        return replace(
            report, surroundings=replace(report.surroundings, inventory=replace(report.surroundings.inventory, **changes))
        )

    return forged


def _without_figures(report: TestReport) -> TestReport:
    assert report.surroundings is not None
    return replace(report, surroundings=replace(report.surroundings, inventory=None))


def _without_document(report: TestReport) -> TestReport:
    return replace(report, artifacts=tuple(each for each in report.artifacts if each.name != ARTIFACT))


async def test_an_inventory_is_a_file_of_a_bundle_that_verifies(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await bundle_of(tmp_path, signer)
    assert verify(bundle, [private_key.public]).findings == ()
    place = bundle / layout.artifact(summary_of(INVENTORY, codec.encode(INVENTORY)).sha256)
    assert codec.decode(place.read_bytes(), EnvironmentInventory) == INVENTORY


@pytest.mark.parametrize(
    "forge",
    [
        *(_figures(packages=2), _figures(unknown_files=0), _figures(altered_files=1), _figures(environment="python 3.12")),
        *(_figures(sha256="0" * 64), _without_figures, _without_document),
    ],
    ids=["packages", "unknown", "altered", "version", "digest", "no_figures", "no_document"],
)
async def test_figures_that_do_not_follow_from_the_inventory_are_found(
    forge: Forge, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await bundle_of(tmp_path, signer, forge)
    assert "inventory_contradicts" in {each.code for each in verify(bundle, [private_key.public]).findings}


@pytest.mark.parametrize(
    "stored",
    [
        *(b"{}", b"[]"),
        codec.encode(EnvironmentInventory(trees=(replace(TREE, packages=(PACKAGE, PACKAGE)),))),
        codec.encode(EnvironmentInventory(trees=(replace(TREE, unknown=()),))),
    ],
    ids=["no_trees", "no_object", "another_package", "unnamed_file"],
)
async def test_another_document_in_its_place_is_found(
    stored: bytes, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await bundle_of(tmp_path, signer, stored=stored)
    assert {each.code for each in verify(bundle, [private_key.public]).findings} == {"inventory_contradicts"}


async def test_an_inventory_that_was_changed_in_the_bundle_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await bundle_of(tmp_path, signer)
    place = bundle / layout.artifact(summary_of(INVENTORY, codec.encode(INVENTORY)).sha256)
    place.chmod(0o600)
    place.write_bytes(place.read_bytes().replace(b"planted", b"trusted"))
    assert "digest_differs" in {each.code for each in verify(bundle, [private_key.public]).findings}
