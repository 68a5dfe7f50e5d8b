"""22. The figures on an environment follow from its inventory and egress logs, which the report stores."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import EnvironmentInventory, TestReport, codec
from gatewright.contracts.inventory import MOST_NAMED
from gatewright.environment_inventory.pulls import ARTIFACT as EGRESS_LOG
from gatewright.environment_inventory.pulls import pull_facts
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import Reading

CODE = "inventory_contradicts"


def check_inventories(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check each test report: figures exist exactly with an inventory, of its digest, and follow from it."""
    for task_id, tests in replayed.history.tests.items():
        for words in _inventory_faults(tests, reading, step):
            yield Contradiction(CODE, layout.test(task_id), layout.EVENTS, words)


def _inventory_faults(tests: TestReport, reading: Reading, step: int) -> Iterator[str]:
    figures = tests.inventory
    stored = [artifact.sha256.lower() for artifact in tests.artifacts if artifact.name == ARTIFACT]
    if stored != ([figures.sha256] if figures is not None else []):
        yield "its figures on the environment and the stored inventory are not of one digest"
        return
    path = layout.artifact(stored[0]) if stored else ""
    data = reading.document(path, step) if path in reading.listed else None
    if data is None:  # another check reports withheld artifacts
        return
    try:
        inventory = codec.decode(data, EnvironmentInventory)
    except MalformedError as error:
        yield f"its inventory is none: {error.message}"
        return
    trees = inventory.trees
    counts = [(each.unknown_files, each.unknown) for each in trees] + [(each.altered_files, each.altered) for each in trees]
    if summary_of(inventory, data) != figures or any(len(names) != min(count, MOST_NAMED) for count, names in counts):
        yield "its figures on the environment do not follow from the inventory"
    yield from _pull_faults(tests, inventory, reading, step)


def _pull_faults(tests: TestReport, inventory: EnvironmentInventory, reading: Reading, step: int) -> Iterator[str]:
    """Compare the egress logs with the inventory: each is there once, is unbroken and has the figures."""
    stored = sorted(artifact.sha256.lower() for artifact in tests.artifacts if artifact.name == EGRESS_LOG)
    pulls = {tree.pull.log_sha256: tree.pull for tree in inventory.trees if tree.pull is not None}
    if stored != sorted(tree.pull.log_sha256 for tree in inventory.trees if tree.pull is not None):
        yield "its egress logs are not those of the inventory"
        return
    for digest, pull in pulls.items():
        path = layout.artifact(digest)
        data = reading.document(path, step) if path in reading.listed else None
        try:
            if data is not None and pull_facts(data) != pull:
                yield "the figures on requests do not follow from the egress log"
        except VerificationError as error:
            yield f"its egress log is none: {error.message}"
