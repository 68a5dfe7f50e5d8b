"""What ``doctor`` and ``status`` report about the stack of a home folder: whether one runs, for how long, and what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatewright.app.stack.lingering import memory, unused
from gatewright.app.stack.state import StackState, read
from gatewright.view.safe_text import size_words


def stack_document(home: Path) -> dict[str, Any] | None:
    """For programs; None where no stack runs. ``kind`` is ``lingering``, ``kept`` (by ``up``) or ``of one run``."""
    running = read(home)
    if running is None:
        return None
    document: dict[str, Any] = {
        "pid": running.pid,
        "home": str(home),
        "kind": _kind(running),
        "workers": running.workers,
        "ready": running.ready,
        "memory": memory(running.pid),
    }
    if running.linger:
        with unused(home) as free:
            document |= {"linger_minutes": running.linger, "in_use": not free}
    return document


def stack_words(home: Path) -> str:
    """For people, on one line."""
    found = stack_document(home)
    if found is None:
        return "no stack runs; a run starts one"
    words = f"process {found['pid']}, {size_words(found['memory'])} of memory"
    if found["kind"] != "lingering":
        return f"a stack {'that `gatewright up` keeps' if found['kind'] == 'kept' else 'of one run'} ({words})"
    use = "in use" if found["in_use"] else "idle"
    ends = f"it ends after {found['linger_minutes']:g} idle minutes, or by `gatewright down`"
    return f"a stack that lingers, {use}: {ends} ({words})"


def _kind(running: StackState) -> str:
    if running.linger:
        return "lingering"
    return "kept" if running.shared else "of one run"
