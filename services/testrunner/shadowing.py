"""Whether what commands are shown within the workspace stands in the way of what the candidate has there."""

from __future__ import annotations

import asyncio
import posixpath

from gatewright.ecosystems.node.members import copies_of_members, members_of
from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirror
from gatewright.git.mirror_tree import list_tree
from gatewright.rules.reports.proof import SHADOWED
from gatewright.sandbox.environments import Environments
from gatewright.tasks.inputs import refuse_taken_places


async def refuse_shadowing(shown: Environments | None, mirror: Mirror, tree: str) -> None:
    """DeniedError (``environment_shadows_candidate``).

    1. the candidate ``tree`` has no file in a place where an environment is shown: it would not be seen
    2. no packages of Node hold a copy of a workspace that the candidate has: its tests would import that.
    """
    if shown is None or not shown.mounts():
        return
    await refuse_taken_places(shown, mirror, tree, SHADOWED)  # 1
    tops = ("", *(posixpath.dirname(place) for _, place in shown.mounts()))
    members = await members_of(await list_tree(mirror, tree), tops)
    copies = await asyncio.to_thread(copies_of_members, shown.mounts(), members)  # 2
    if copies:
        words = "; ".join(f"{name} -> {place}, and not the candidate's {folder}" for name, place, folder in copies)
        raise DeniedError(f"{words}: install with a link to it (npm ci does, with workspaces)", code=SHADOWED)
