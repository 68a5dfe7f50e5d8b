"""Who descends from whom, as /proc tells it now."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """The children of process ``pid``; none when it has ended."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found.extend(int(child) for child in (thread / "children").read_bytes().split())
    except OSError:
        pass  # it ended while we looked
    return found


def descendants(pid: int) -> list[int]:
    """``pid`` and all processes below it; those that end meanwhile are left out."""
    found = [pid]
    for parent in found:
        found.extend(children(parent))
    return found


def state(pid: int) -> tuple[str, int]:
    """The state letter of process ``pid`` and its parent's number. Raises OSError when it has ended."""
    # The name before them is in parentheses and may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[0].decode("ascii"), int(fields[1])
