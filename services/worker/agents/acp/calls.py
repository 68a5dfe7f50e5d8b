"""Tool calls of an agent: a permission request refers to a call, and is judged by everything reported about it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gatewright.services.worker.agents.acp.dialect import CallReport
from gatewright.services.worker.agents.acp.question import readings_of, worst
from gatewright.services.worker.agents.permission import What
from gatewright.services.worker.agents.reporter import AgentReporter, quote_text

#: Calls that are remembered; beyond, the oldest are forgotten.
MAX_CALLS: Final = 1_000
_EXITS: Final = ("exitCode", "exit_code", "exit")


@dataclass(slots=True)
class _Call:
    title: str = ""
    command: str = ""
    what: set[What] = field(default_factory=set)
    paths: dict[str, None] = field(default_factory=dict)
    reported: bool = False
    ended: bool = False


class ToolCalls:
    """The calls of one session, reported as commands and files."""

    def __init__(self, reporter: AgentReporter) -> None:
        self._reporter = reporter
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    def learn(self, report: CallReport) -> bool:
        """Process an update of a call: report its command once known, and its written files once it is done.

        Returns:
            Whether the call starts with this update.
        """
        begins = report.name[:200] not in self._calls if report.begins is None else report.begins
        call = self._merge(report)
        ends = report.status in ("completed", "failed") and not call.ended
        if "command" in call.what and not call.reported and (call.command or ends):
            call.reported = True
            self._reporter.command(call.command or call.title)
        if ends:
            call.ended = True
            status = _exit_status(report.raw_output)
            if "command" in call.what and status is not None:
                self._reporter.command(call.command or call.title, status)
            elif report.status == "completed" and worst(call.what) == "edit":
                self._reporter.files(call.paths)
        return begins

    def ask(self, report: CallReport) -> tuple[What, str]:
        """Return what a permission request is for, in the worst reading of all reports about its call, and as text."""
        call = self._merge(report)
        words = call.command or call.title or report.name.strip()
        if call.paths:
            words = f"{words} ({', '.join(list(call.paths)[:5])})"
        return worst(call.what), quote_text(words)

    def _merge(self, report: CallReport) -> _Call:
        name = report.name[:200]
        call = self._calls.setdefault(name, _Call())
        self._calls.move_to_end(name)
        if len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)
        call.what.update(readings_of(report))
        if report.title:
            call.title = report.title[:500]
        call.command = _command(report.raw_input) or call.command
        for path in report.changed or report.places:
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
