"""A file that an acceptance command declares as its output, read from the folder of the command's writes."""

from __future__ import annotations

import os
from typing import Final

from gatewright.errors import GatewrightError
from gatewright.workspace import Workspace

#: Bytes of a report.
MOST_BYTES: Final = 32 << 20


def read_report(workspace: Workspace, file: str, before: tuple[int, ...]) -> bytes:
    """Return the report. ``before``: what ``Workspace.written`` returned before the command. Blocks.

    Raises OSError: the command did not write it, or it is no regular file of a permitted size.
    """
    now = workspace.written(file)
    if not now or now == before:
        there = now or workspace.had(os.fsencode(file))
        raise OSError("the command left it as it was" if there else "the command did not write it")
    return workspace.read_written(file, MOST_BYTES)


def cause_of(error: GatewrightError | OSError) -> str:
    """Return for people why a report cannot be used."""
    return error.message if isinstance(error, GatewrightError) else error.strerror or str(error)
