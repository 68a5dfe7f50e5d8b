"""Reasoning that some models write before their answer: it is no part of the reply. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.errors import ExtractionError

_TAGS = ("think", "thinking", "thought", "reasoning", "scratchpad")


def answer_in(lines: Sequence[str]) -> Sequence[str]:
    """Return ``lines`` without the reasoning before them. Raises ExtractionError when its end is ambiguous."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return lines
    opening = lines[first].strip()
    tag = next((tag for tag in _TAGS if opening.lower().startswith(f"<{tag}>")), None)
    if tag is None:
        return lines
    ends = [number for number in range(first, len(lines)) if f"</{tag}>" in lines[number].lower()]
    if len(ends) != 1:
        why = "never ends; the reply is not whole" if not ends else "ends more than once"
        raise ExtractionError(f"line {first + 1}: the reasoning {why}")
    after = lines[ends[0]]
    rest = after[after.lower().rindex(f"</{tag}>") + len(tag) + 3 :]
    # Lines keep their numbers: what is left out becomes blank.
    return [*("" for _ in range(ends[0])), rest, *lines[ends[0] + 1 :]]
