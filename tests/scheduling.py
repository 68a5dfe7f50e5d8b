"""Which process plays which tests, where several play them at once."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Files of tests/e2e with stacks of their own. All others share one, which takes longer to start than any of their tests.
OWN_STACKS = {
    f"test_{name}.py"
    for name in (
        "hostile_agents",
        "interactive",
        "mutants",
        "named_publishers",
        "private_repository",
        "recorded_runs",
        "sentence",
    )
}


class SharedStacks(LoadFileScheduling):
    """File by file, but one process for all files that share a stack, which is started once, and for all that start containers:
    the image is built once, and one system in containers stands at a time.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder, _, name = nodeid.partition("::")[0].rpartition("/")
        shared = folder.endswith("tests/compose") or (folder.endswith("tests/e2e") and name not in OWN_STACKS)
        return folder if shared else f"{folder}/{name}"

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test with which a process ended. It has failed, and is not played again: a test that hangs would end one
        process after the other, each after the longest time that a test may take. Files that were played to their end are not
        handed out again either: a process that is given no test never asks for more, and the run would wait for ever.
        """
        units = self.assigned_work[node]
        played = next(((unit, test) for unit in units.values() for test, over in unit.items() if not over), None)
        if played is None:
            return super().remove_node(node)
        unit, test = played
        unit[test] = True
        self.assigned_work[node] = {scope: unit for scope, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return test

    def _reschedule(self, node: WorkerController) -> None:
        """Of two processes that came in place of others, the second may still collect: it asks for work when it has done so."""
        if node in self.registered_collections:
            super()._reschedule(node)
