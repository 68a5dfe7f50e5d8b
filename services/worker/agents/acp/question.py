"""Reads an agent's permission request and decides by the kind of the offered options, never by their position, id or text.

The request is the agent's claim, with every word of it: the worst reading of everything it reported about the call applies. The
answer only helps the agent to work or to give up early; sandbox and gates enforce what it may do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from acp.schema import PermissionOption
from pydantic import ValidationError

from gatewright.services.worker.agents.acp.dialect import CallReport
from gatewright.services.worker.agents.permission import What
from gatewright.services.worker.agents.port import Answered, Asked

#: More options than any agent offers: a question with more is not read.
MAX_OPTIONS: Final = 32
_MAX_ID: Final = 1024

#: What a call is, the worst first.
_WORST_FIRST: Final[tuple[What, ...]] = ("command", "other", "network", "edit", "read")
_OF_KIND: Final[Mapping[str, What]] = {
    "execute": "command",
    "fetch": "network",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "read": "read",
    "search": "read",
    "think": "read",
}


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """``offered`` are the options that can be chosen, by kind; ``kinds`` all kinds that were named, known or not."""

    call: str
    what: What
    subject: str
    offered: Mapping[str, tuple[str, ...]]
    kinds: tuple[str, ...]

    @property
    def asked(self) -> Asked:
        """In the words of the port."""
        return "other" if self.what == "read" else self.what


@dataclass(frozen=True, slots=True)
class Choice:
    """``option`` is the id to answer with, None for the outcome ``cancelled``."""

    answer: Answered
    option: str | None = None


def readings_of(call: CallReport) -> Iterator[What]:
    """Yield the possible meanings of a tool call: a command line makes it a command, regardless of its claimed kind."""
    if call.runs or (isinstance(call.raw_input, dict) and isinstance(call.raw_input.get("command"), (str, list))):
        yield "command"
    if call.differs:
        yield "edit"
    if call.kind is not None:
        yield _OF_KIND.get(call.kind, "other")


def worst(readings: Iterable[What]) -> What:
    """The worst of several readings of one call; ``other`` of none."""
    found = set(readings)
    return next((what for what in _WORST_FIRST if what in found), "other")


def options_of(raw: object) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """The options that can be chosen, by kind, and all kinds that were named.

    An option whose id is not its own alone cannot be chosen: the agent would be free to read it as the other. Nor can one of an
    unknown kind, or any of a list that is too long.
    """
    items = raw if isinstance(raw, list) else []
    kinds = tuple(dict.fromkeys(_kind(item) for item in items[:MAX_OPTIONS]))
    if len(items) > MAX_OPTIONS:
        return {}, kinds
    ids = Counter(_id(item) for item in items)
    offered: dict[str, tuple[str, ...]] = {}
    for item in items:
        try:
            option = PermissionOption.model_validate(item)
        except ValidationError:
            continue
        if ids[option.option_id] == 1 and len(option.option_id) <= _MAX_ID:
            offered[option.kind] = (*offered.get(option.kind, ()), option.option_id)
    return offered, kinds


def _kind(item: object) -> str:
    kind = item.get("kind") if isinstance(item, dict) else None
    return kind[:40] if isinstance(kind, str) else "none"


def _id(item: object) -> str | None:
    found = item.get("optionId") if isinstance(item, dict) else None
    return found if isinstance(found, str) else None


def choose(question: PermissionQuestion, *, allowed: bool) -> Choice:
    """The option to answer with: once only, never for always.

    1. To allow, exactly one option must be of the kind ``allow_once``: of two, one may well grant more than is asked.
    2. Otherwise it is refused, with any option of the kind ``reject_once``.
    3. Where there is none, there is nothing to refuse with: the outcome is ``cancelled``, and the turn is to be ended.
    """
    once = question.offered.get("allow_once", ())
    if allowed and len(once) == 1:
        return Choice("allow", once[0])
    refusals = question.offered.get("reject_once", ())
    return Choice("reject", refusals[0]) if refusals else Choice("cancel")
