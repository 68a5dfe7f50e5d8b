"""The protocol between a supervisor and its fork server: orders one way, reports the other, one JSON object a line."""

from __future__ import annotations

import msgspec

#: Before the modules on the command line: where the catalogue of secrets may be kept, for it to be loaded ahead.
SECRETS = "--secrets"


class StartOrder(msgspec.Struct, frozen=True):
    """Start a process: the fields of a ProcessPlan."""

    name: str
    module: str
    environment: dict[str, str]
    directory: str
    log: str


class Report(msgspec.Struct, frozen=True):
    """``returncode`` is None for a birth, else how the process ended (negative: the signal)."""

    name: str
    pid: int
    returncode: int | None = None
