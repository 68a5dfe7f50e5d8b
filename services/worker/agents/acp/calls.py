"""Tool calls of an agent: a permission request refers to a call, and is judged by everything reported about it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gatewright.services.worker.agents.acp.question import readings_of, worst
from gatewright.services.worker.agents.acp.said import CallReport
from gatewright.services.worker.agents.permission import What
from gatewright.services.worker.agents.telling import AgentReporter, quote_text

#: Calls that are remembered; beyond, the oldest are forgotten.
MAX_CALLS: Final = 1_000
_EXITS: Final = ("exitCode", "exit_code", "exit")


@dataclass(slots=True)
class _Call:
    title: str = ""
    command: str = ""
    what: set[What] = field(default_factory=set)
    paths: dict[str, None] = field(default_factory=dict)
    told: bool = False
    ended: bool = False


class ToolCalls:
    """The calls of one session, reported as commands and files."""

    def __init__(self, telling: AgentReporter) -> None:
        self._telling = telling
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    def learn(self, said: CallReport) -> bool:
        """Process an update of a call: report its command once known, and its written files once it is done.

        Returns:
            Whether the call starts with this update.
        """
        begins = said.name[:200] not in self._calls if said.begins is None else said.begins
        call = self._merge(said)
        ends = said.status in ("completed", "failed") and not call.ended
        if "command" in call.what and not call.told and (call.command or ends):
            call.told = True
            self._telling.command(call.command or call.title)
        if ends:
            call.ended = True
            status = _exit_status(said.raw_output)
            if "command" in call.what and status is not None:
                self._telling.command(call.command or call.title, status)
            elif said.status == "completed" and worst(call.what) == "edit":
                self._telling.files(call.paths)
        return begins

    def ask(self, said: CallReport) -> tuple[What, str]:
        """Return what a permission request is for, in the worst reading of all reports about its call, and as text."""
        call = self._merge(said)
        words = call.command or call.title or said.name.strip()
        if call.paths:
            words = f"{words} ({', '.join(list(call.paths)[:5])})"
        return worst(call.what), quote_text(words)

    def _merge(self, said: CallReport) -> _Call:
        name = said.name[:200]
        call = self._calls.setdefault(name, _Call())
        self._calls.move_to_end(name)
        if len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)
        call.what.update(readings_of(said))
        if said.title:
            call.title = said.title[:500]
        call.command = _command(said.raw_input) or call.command
        for path in said.changed or said.places:
            if len(call.paths) < 100:
                call.paths[path[:4096]] = None
        return call


def _command(raw: object) -> str:
    found = raw.get("command") if isinstance(raw, Mapping) else None
    if isinstance(found, list):
        return quote_text(" ".join(word for word in found[:100] if isinstance(word, str)))
    return quote_text(found) if isinstance(found, str) else ""


def _exit_status(raw: object) -> int | None:
    """Where agents put it: at the top of the output, or under ``metadata``."""
    for place in (raw, raw.get("metadata") if isinstance(raw, Mapping) else None):
        if isinstance(place, Mapping):
            for name in _EXITS:
                status = place.get(name)
                if type(status) is int and -(1 << 31) <= status < 1 << 31:
                    return status
    return None
