"""Whether a command failed at the border of an overlay, which does not let a folder of the baseline be renamed.

The kernel answers EXDEV then, and programs say so. In a plain copy of the files the same command meets no border: it is for the
role that runs commands to begin again there, once. A command that only says so gains a second run, and no more.
"""

from __future__ import annotations

from gatewright.patterns import BytesPattern
from gatewright.sandbox.port import Completed
from gatewright.workspace.workspace import Workspace

#: What C, Python, Node, Rust and Java programs say of EXDEV.
_CROSSED = BytesPattern(rb"[Cc]ross-device link|\[Errno 18\]|\bEXDEV\b|os error 18\b")


def met_border(workspace: Workspace, completed: Completed) -> bool:
    """Whether a command failed in an overlay and says that it did so with EXDEV; never true of a plain copy."""
    if not workspace.overlay or completed.exit_code == 0:
        return False
    return _CROSSED.first(completed.stderr + b"\n" + completed.stdout) is not None
