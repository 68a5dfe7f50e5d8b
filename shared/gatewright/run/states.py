"""The states of a run and their order (specification 7). ``docs/architecture.md`` draws them."""

from __future__ import annotations

from typing import Literal

State = Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "QUEUED", "FAILED", "ABORTED"]
#: Parked until a person has answered; the run then continues in its earlier state.
PARKED: Literal["AWAITING_APPROVAL"] = "AWAITING_APPROVAL"
#: Parked in the merge queue of its target branch.
QUEUED: Literal["QUEUED"] = "QUEUED"
#: States in which nothing works for the run, and its wall time stands still.
WAITING: frozenset[str] = frozenset({PARKED, QUEUED})
Level = Literal["INFO", "WARN", "ERROR"]
Status = Literal["SUCCESS", "FAILED", "ABORTED"]
Ending = Literal["FAILED", "ABORTED"]

#: Successors of each state: one way, no skipping. Every open state may also end in FAILED or ABORTED.
SUCCESSORS: dict[State, tuple[State, ...]] = {
    "S0": ("S1",),
    "S1": ("S2", "AWAITING_APPROVAL"),
    "S2": ("S3", "S5"),
    "S3": ("S4", "S5", "AWAITING_APPROVAL"),
    "S4": ("S5", "S6", "AWAITING_APPROVAL", "QUEUED"),
    "S5": ("S2",),
    "S6": (),
    "AWAITING_APPROVAL": ("S1", "S4", "S5"),
    "QUEUED": ("S6",),
    "FAILED": (),
    "ABORTED": (),
}
#: Further successors of a parked run: people sent the change back, or granted one more round.
SENT_BACK: dict[str, tuple[State, ...]] = {"S3": ("S5",), "S4": ("S5",)}
TERMINAL: frozenset[State] = frozenset({"S6", "FAILED", "ABORTED"})
#: The states of a successful run, in order; S5 is a detour.
MAIN_LINE: tuple[State, ...] = ("S0", "S1", "S2", "S3", "S4", "S6")
#: Names of states for people.
STATE_NAMES: dict[str, str] = {
    "S0": "Intake",
    "S1": "Plan",
    "S2": "Execute",
    "S3": "Review",
    "S4": "Test",
    "S5": "Fix",
    "S6": "Done",
    "AWAITING_APPROVAL": "Wait for a person",
    "QUEUED": "Wait in the merge queue",
    "FAILED": "Failed",
    "ABORTED": "Aborted",
}


def stage_name(state: str) -> str:
    """Return ``S2 execute``, a numbered state with its name; other states stand for themselves."""
    name = STATE_NAMES.get(state) if state.startswith("S") else None
    return f"{state} {name.lower()}" if name else state
