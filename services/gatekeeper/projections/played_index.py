"""Results by test of recent runs, to detect flaky tests: a projection of the ledger. It decides nothing.

Only names in verdicts of the tests gate are kept. Runs that expired from the ledger are forgotten.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.contracts.reports import PlayedTests
from gatewright.foreign_documents import UnreadableDocumentError
from gatewright.rules.reports.flakes import RecordedTests
from gatewright.run.events import RunAccepted, RunExpired, RunFinished
from gatewright.services.gatekeeper.projections.entries import ACCEPTED, AcceptedRun, LedgerEntry, judged_tests

#: Maximum number of results in memory. Beyond it, the repository with the most results loses its oldest report.
MOST_RESULTS = 100_000


@dataclass
class PlayedIndex:
    """Reports by run and task, oldest first. ``_open``: runs that have not ended. ``_sizes``: results by repository."""

    most: int = MOST_RESULTS
    _reports: dict[tuple[str, str], RecordedTests] = field(default_factory=dict)
    _open: dict[str, AcceptedRun] = field(default_factory=dict)
    _sizes: Counter[str] = field(default_factory=Counter)

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry."""
        for event in entry.events:
            if event.event_type == RunAccepted.event_type:
                try:
                    self._open[entry.run_id] = ACCEPTED.decode(event.payload)
                except UnreadableDocumentError:
                    continue  # loading the run reports it
            elif event.event_type == RunFinished.event_type:
                self._open.pop(entry.run_id, None)
            elif event.event_type == RunExpired.event_type:
                for key in [key for key in self._reports if key[0] == entry.run_id]:
                    self._drop(key)
            elif (judged := judged_tests(event)) is not None and (run := self._open.get(entry.run_id)) is not None:
                played = tuple(map(_with_shared_names, judged.played))
                recorded = RecordedTests(entry.run_id, run.repository, run.owner, judged.evaluated_at, played)
                self._add((entry.run_id, judged.task_id or ""), recorded)

    def records(self, repository: str, since: datetime, visible: Callable[[str], bool]) -> Sequence[RecordedTests]:
        """Return the reports judged at or after ``since``; those of all repositories for an empty ``repository``."""
        start, kept = timestamp(since), self._reports.values()
        return [each for each in kept if each.at >= start and repository in ("", each.repository) and visible(each.publisher)]

    def _add(self, key: tuple[str, str], report: RecordedTests) -> None:
        self._drop(key)
        self._reports[key] = report
        self._sizes[report.repository] += _results_in(report)
        while self._sizes.total() > self.most:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._drop(next(key for key, each in self._reports.items() if each.repository == largest))

    def _drop(self, key: tuple[str, str]) -> None:
        if (report := self._reports.pop(key, None)) is not None:
            self._sizes[report.repository] -= _results_in(report)
            self._sizes += Counter()  # removes repositories without results


def _results_in(report: RecordedTests) -> int:
    return sum(1 + len(part.failed) + len(part.passed) + len(part.passed_before) for part in report.played)


def _with_shared_names(part: PlayedTests) -> PlayedTests:
    """Return equal results whose strings are shared by all reports."""
    shared = {name: tuple(map(sys.intern, getattr(part, name))) for name in ("cmd_argv", "failed", "passed", "passed_before")}
    return replace(part, **shared)
