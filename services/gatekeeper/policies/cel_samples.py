"""Sample of all data that an organisation rule can see. Rules are evaluated on it when loaded; it documents the names.

``gates/cel_gate.py`` builds the real documents; a test compares their names with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatewright.git.modes import FILE

CONTRACT: Mapping[str, Any] = {
    "task_id": "run-0123456789abcdef0123.contract",
    "task_type": "IMPLEMENT",
    "spec": "Rename the option.",
    "owner": {"role": "PM", "agent_id": "pm-1"},
    "assigned": {"role": "WORKER", "agent_id": "worker-1"},
    "policy_pack": "low",
    "allowed_paths": ["src/options"],
    "acceptance_tests": [{"name": "unit", "cmd": "pytest -q", "must_pass": True}],
    "permissions": {"filesystem": "workspace-write", "shell": "never", "network": "deny", "mcp_tools": []},
    "repository": {"url": "https://git.example.org/shop.git", "target_ref": "refs/heads/main", "landing": "branch"},
    "executor": {"kind": "command", "commands": ["ruff format {paths}"], "artifacts": [], "agent": "", "model": ""},
    "scope": {"allow_dependency_change": False, "allow_protected_paths": [], "allow": [], "destructive": []},
    "max_retries": 0,
    "strict_acceptance": False,
    "tests": "change",
    "audit_only": False,
    "requirement_ids": ["SHOP-CART-014"],
    "forbidden_actions": ["sudo"],
}
DIFF: Mapping[str, Any] = {
    "changed_files": 1,
    "added": 0,
    "modified": 1,
    "deleted": 0,
    "patch_bytes": 120,
    "classes": {"sacred": 0, "ci": 0, "protected": 0, "runner": 0, "dependencies": 0, "migrations": 0, "plain": 1},
    "changes": [
        {
            "path": "src/options/colour.py",
            "status": "modified",
            "old_mode": FILE,
            "new_mode": FILE,
            "classes": ["plain"],
            "size": 900,
        }
    ],
}
EVIDENCE: Mapping[str, Any] = {
    "attempt": 1,
    "baseline_commit": "0" * 40,
    "candidate_tree": "0" * 40,
    "workers": 1,
    "review": {
        "reviewer": "reviewer-1",
        "verdict": "PASS",
        "findings": [{"code": "style", "blocking": False, "path": "src/options/colour.py"}],
    },
    "tests": {
        "runner": "testrunner-1",
        "status": "PASS",
        "sandbox": "bubblewrap",
        "commands": [
            {
                "name": "unit",
                "argv": ["pytest", "-q"],
                "must_pass": True,
                "exit_code": 0,
                "timed_out": False,
                "run": 1,
                "trivial": False,
            }
        ],
    },
}


def sample(*, sizes: bool) -> dict[str, Mapping[str, Any]]:
    """Return the sample documents of the last stage.

    Args:
        sizes: whether changes include sizes, as in a run whose rules request them.
    """
    changes = [change if sizes else {k: v for k, v in change.items() if k != "size"} for change in DIFF["changes"]]
    return {"contract": CONTRACT, "diff": {**DIFF, "changes": changes}, "evidence": EVIDENCE}
