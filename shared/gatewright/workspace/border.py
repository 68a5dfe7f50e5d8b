"""Commands that failed because an overlay does not allow renaming a folder of the baseline.

The kernel returns EXDEV then, and programs report it. In a plain copy of the files the same command succeeds, so the role
that runs commands retries it there, once. A command that only pretends this gains one more run.
"""

from __future__ import annotations

from gatewright.patterns import BytesPattern
from gatewright.sandbox.port import Completed
from gatewright.workspace.workspace import Workspace

#: Messages of C, Python, Node, Rust and Java programs about EXDEV.
_CROSSED = BytesPattern(rb"[Cc]ross-device link|\[Errno 18\]|\bEXDEV\b|os error 18\b")


def met_border(workspace: Workspace, completed: Completed) -> bool:
    """Return whether a command failed in an overlay and reports EXDEV; always False for a plain copy."""
    if not workspace.overlay or completed.exit_code == 0:
        return False
    return _CROSSED.first(completed.stderr + b"\n" + completed.stdout) is not None
