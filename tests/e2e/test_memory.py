"""A whole stack whose policy lets runs be told of earlier ones: refused, killed, landed, told, verified and made again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, is_ready, running_stack, wait_until
from tests.evidence.tampering import files_of
from tests.gatekeeper.projections.test_memory import policies_with_memory

pytestmark = pytest.mark.long

EDIT = "python tools/edit.py 0 {paths}"


@dataclass(frozen=True)
class RememberingStack(Stack):
    """A stack whose runs are told of two earlier ones."""

    policies: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "GATEWRIGHT_POLICIES": str(self.policies)}


def test_a_run_remembers_earlier_runs_also_after_a_killed_gatekeeper(tmp_path: Path, make_project: MakeProject) -> None:
    stack = RememberingStack(tmp_path / "home", policies_with_memory(tmp_path, entries=2))
    project = make_project()
    words = ("--allow", "src", "--exec", EDIT, "--test")
    with running_stack(stack.home, workers=1, stack=stack):
        code, refused = stack.run(project, *words, "python tools/check.py none")
        assert (code, refused["status"]) == (1, "FAILED")
        assert stack.command("show", refused["run_id"], "--as", "memory").returncode == 2
        (before,) = stack.members("gatekeeper")
        stack.kill("gatekeeper")
        wait_until(lambda: is_ready(stack) and stack.members("gatekeeper")[0].pid != before.pid)
        code, landed = stack.run(project, *words, "python tools/check.py 0")
        assert (code, landed["status"]) == (0, "SUCCESS"), landed
        memory = json.loads(stack.command("show", landed["run_id"], "--as", "memory", "--json").stdout)
        packet = json.loads(stack.command("show", landed["run_id"], "--as", "progress", "--json").stdout)
        for run in (refused, landed):
            assert stack.command("verify", run["bundle"], "--repo", str(project)).returncode == 0
        assert stack.command("replay", "--reexecute", landed["bundle"]).returncode == 0
        bundle = Path(landed["bundle"])
        held = {path: (bundle / path).read_bytes() for path in files_of(bundle)}
        bundle.rename(tmp_path / "lost")
        assert stack.command("replay", "--from-ledger", landed["run_id"]).returncode == 0
        assert {path: (bundle / path).read_bytes() for path in files_of(bundle)} == held
    (entry,) = memory["entries"]
    assert (entry["run_id"], entry["status"], entry["code"]) == (refused["run_id"], "FAILED", refused["failure"]["code"])
    assert packet["reconciliation"]["complete"]
    assert packet["touched"]["paths"] == ["src/a.py", "src/b.py"]
