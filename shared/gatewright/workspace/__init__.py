"""Places where commands run: an overlay over a cached baseline, or a plain checkout; and what changed in them."""

from __future__ import annotations

from gatewright.workspace.difference import ChangeBounds
from gatewright.workspace.workspace import Workspace
from gatewright.workspace.workspaces import Workspaces

__all__ = ["ChangeBounds", "Workspace", "Workspaces"]
