"""Files that are sacred depending on their content: ``*.key``, ``*.pem``, ``.env.*``, ``*.tfvars``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from gatewright.git.changes import TreeChange
from gatewright.git.modes import ABSENT, REGULAR
from gatewright.secrets.credential_files import MOST_BYTES, holds_credentials
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE: Final = "protected_paths.sacred"
#: Maximum number of such files judged per change; each further one is treated as sacred.
_MOST_FILES: Final = 2000
#: Maximum bytes of all their versions together.
_MOST_BYTES_OF_ALL: Final = 64 << 20


async def judge_credential_files(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Refuse changes of such files when a side holds a credential or cannot be judged.

    Raises:
        GitError: the mirror cannot be read.
    """
    asked = [change for change in changes if context.policies.content_decides(change.path)]
    if not asked:
        return
    contents = await _read_blobs(context, asked[:_MOST_FILES])
    for change in asked:
        fault = await asyncio.to_thread(_fault, change, contents)
        if fault:
            context.report.violate("path_protected", RULE, f"{fault}; no contract opens it", change.path)


async def _read_blobs(context: ChangeContext, changes: Sequence[TreeChange]) -> Mapping[str, bytes]:
    wanted = {each for change in changes for each, mode in change.sides if mode in REGULAR}
    chosen, held = [], 0
    for object_id, size in (await context.mirror.sizes(wanted)).items():
        held += size
        if size <= MOST_BYTES and held <= _MOST_BYTES_OF_ALL:
            chosen.append(object_id)
    return await context.mirror.blobs(chosen) if chosen else {}


def _fault(change: TreeChange, contents: Mapping[str, bytes]) -> str:
    for object_id, mode in change.sides:
        if mode == ABSENT:
            continue
        content = contents.get(object_id) if mode in REGULAR else None
        if content is None:
            return "it may hold a credential, and is too large or no file to be judged"
        if holds_credentials(change.path, content):
            return "it holds a credential"
    return ""
