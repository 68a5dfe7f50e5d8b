"""Sources of past and present runs: the ledger if there is a bus, else the bundles in the home folder.

A command that reads only bundles imports nothing of a bus: ``ledger_source`` has the ledger's side.
"""

from __future__ import annotations

import contextlib
import glob
import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from gatewright.app.feed.claims import ReportedClaims
from gatewright.clock import timestamp
from gatewright.contracts import FlakyTests, OrchestratorEvent, codec
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.evidence.store.address import is_address, is_run, parse_run
from gatewright.foreign_documents import read_json
from gatewright.run.state import Run
from gatewright.view.run_view import RunView, view_of
from gatewright.view.stages import view_with_stages

if TYPE_CHECKING:
    from gatewright.app.cli.runs.waits import Wait

#: Maximum runs to list when a beginning of an id is ambiguous.
_SHOWN = 5
_LONGEST_LINE = 16 << 20
#: Maximum bundles in which flaky tests are searched.
_MOST_PLAYED = 500

RUNS_FOLDER = "runs"
EVENTS_FILE = "events.jsonl"


class _First(msgspec.Struct):
    ts: str


class RunPage(NamedTuple):
    """A page of runs. ``views``: newest first. ``more``: there are older ones. ``claims``: claims of their tasks."""

    views: tuple[RunView, ...]
    more: bool
    claims: ReportedClaims = ReportedClaims()

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs themselves."""
        return tuple(view.run for view in self.views)


class RunSource(Protocol):
    """Read-only access to runs."""

    async def page(self, limit: int, before: str | None) -> RunPage:
        """Return the newest runs, or the newest ones before a run. Raises MalformedError (``run_unknown``)."""

    async def beginning(self, prefix: str) -> tuple[str, ...]:
        """Return some run ids with this beginning, newest first; enough to see whether there is none, one, or more."""

    async def view(self, run_id: str) -> RunView:
        """Return one run. Raises MalformedError (code ``run_unknown``)."""

    async def output(self, uri: str) -> bytes:
        """Return a command's output by its URI, if no local bundle has it. Raises GatewrightError."""

    async def waits(self, view: RunView) -> tuple[Wait, ...]:
        """Return the current waits of the run, as far as visible."""

    async def system_waits(self) -> tuple[Wait, ...]:
        """Return the current waits of every open run, as far as visible."""

    async def flaky_tests(self, repository: str, seconds: int) -> FlakyTests:
        """Return flaky tests in runs of the last ``seconds``; an empty ``repository`` means all. Raises GatewrightError."""

    async def claims(self, run_id: str) -> ReportedClaims:
        """Return the gatekeeper's claims of a run's tasks; none if this identity may not ask it."""


#: Maximum difference between the clock of the events and that of the disk.
_CLOCK_SECONDS = 1.0


class BundleSource:
    """Runs as recorded in local bundles. Reads events only; ``verify`` checks whether they are genuine."""

    def __init__(self, home: Path, warn: Callable[[str], None], folder: str = RUNS_FOLDER) -> None:
        self._folder = home / folder
        self._warn = warn

    async def page(self, limit: int, before: str | None) -> RunPage:
        folders = self._newest_first()
        if before is not None and not any(folder.name == before for folder in folders):
            raise unknown_run(before)  # else the remaining bundles are the older ones
        found: list[RunView] = []
        for folder in folders:
            if len(found) == limit:
                return RunPage(tuple(found), more=True)
            try:
                view = view_of(read_events(folder / EVENTS_FILE))
                if view is not None:
                    _check_place(view.run, folder)
            except GatewrightError as error:
                self._warn(f"{folder} is passed over: {error.message}")
            else:
                found += [view] if view else []
        return RunPage(tuple(found), more=False)

    async def beginning(self, prefix: str) -> tuple[str, ...]:
        if Path(prefix).name != prefix:
            return ()  # a path is not a run id here
        return tuple(folder.name for folder in self._newest_first(prefix))

    def _newest_first(self, prefix: str = "") -> Iterator[Path]:
        """Yield bundles by the start time of their runs, newest first.

        The first event is written first, so a run started no later than its bundle was last written. So the bundles that were
        written last are opened first, and of a long history no more than necessary.
        """
        written = sorted(
            ((_changed_at(events), events.parent) for events in self._folder.glob(f"{glob.escape(prefix)}*/{EVENTS_FILE}")),
            reverse=True,
        )
        opened: list[tuple[float, str, Path]] = []
        for changed, folder in written:
            while opened and -opened[0][0] > changed + _CLOCK_SECONDS:
                yield heapq.heappop(opened)[2]
            heapq.heappush(opened, (-_begun_at(folder), folder.name, folder))
        while opened:
            yield heapq.heappop(opened)[2]

    async def view(self, run_id: str) -> RunView:
        bundle = self._folder / run_id
        if bundle.parent != self._folder or not (bundle / EVENTS_FILE).is_file():
            raise unknown_run(run_id)
        view = existing(view_with_stages(read_events(bundle / EVENTS_FILE)), run_id)
        _check_place(view.run, bundle)
        return replace(view, folder=str(bundle))

    async def output(self, uri: str) -> bytes:
        raise UnavailableError(f"{uri} is in no bundle here, and no system runs that may have it", code="artifact_unavailable")

    async def waits(self, view: RunView) -> tuple[Wait, ...]:  # noqa: ARG002 - no system runs, and no run continues
        return ()

    async def system_waits(self) -> tuple[Wait, ...]:
        return ()

    async def claims(self, run_id: str) -> ReportedClaims:  # noqa: ARG002 - no process has a task
        return ReportedClaims()

    async def flaky_tests(self, repository: str, seconds: int) -> FlakyTests:
        from gatewright.git.host.identity import repository_identity
        from gatewright.rules.reports.flakes import flaky_tests, recorded_tests

        key, since = repository and repository_identity(repository), timestamp(datetime.now(UTC) - timedelta(seconds=seconds))
        views = (await self.page(_MOST_PLAYED, None)).views
        records = [each for view in views for each in recorded_tests(view.run, view.gates) if each.at >= since]
        records = [each for each in records if key in ("", each.repository)]
        return FlakyTests(tests=tuple(flaky_tests(records)), reports=len(records), more=False)


def read_events(path: Path) -> list[OrchestratorEvent]:
    """Read the events of a bundle, without a last line that a crash cut off. Raises MalformedError."""
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror}", code="invalid_input") from error
    return [codec.decode(line, OrchestratorEvent) for line in whole.split(b"\n") if line]


async def find_run(source: RunSource, wanted: str | None) -> str:
    """Return the id of ``wanted``: an id, the unambiguous beginning of one, or None for the newest run.

    Raises MalformedError (codes ``run_unknown``, ``run_ambiguous``).
    """
    if wanted is None:
        newest = await source.page(1, None)
        if not newest.runs:
            raise MalformedError("there are no runs yet", code="run_unknown")
        return newest.runs[0].run_id
    if is_run(wanted):
        return wanted  # the reader checks whether it exists
    matching = await source.beginning(wanted) or await source.beginning(f"run-{wanted}")
    if wanted in matching:
        return wanted
    if not matching:
        raise unknown_run(wanted)
    if len(matching) > 1:
        raise MalformedError(f"{wanted} may be any of {', '.join(matching[:_SHOWN])}", code="run_ambiguous")
    return matching[0]


def run_of(given: str | None) -> str | None:
    """Return the run of ``given``: the end of a store address, else all of it. Raises StoreError."""
    return parse_run(given)[1] if given is not None and is_address(given) else given


def _begun_at(folder: Path) -> float:
    """Return the time of a run's first event, in seconds since 1970; 0 if it is unreadable."""
    with contextlib.suppress(OSError, ValueError), (folder / EVENTS_FILE).open("rb") as file:
        return datetime.fromisoformat(read_json(file.readline(_LONGEST_LINE), _First).ts).timestamp()
    return 0.0


def _changed_at(events: Path) -> float:
    """Return when a file was last written, in seconds since 1970; 0 if it has just been deleted."""
    with contextlib.suppress(OSError):
        return events.stat().st_mtime
    return 0.0


def unknown_run(run_id: str) -> MalformedError:
    return MalformedError(f"there is no run {run_id}; `gatewright runs` lists them", code="run_unknown")


def _check_place(run: Run, bundle: Path) -> None:
    """Raise MalformedError (``other_run``) if the folder of a run has the events of another run."""
    if run.run_id != bundle.name:
        raise MalformedError(
            f"{bundle} holds the events of {run.run_id}, not of the run that it is called by", code="other_run"
        )


def existing(view: RunView | None, run_id: str) -> RunView:
    """Return the view. Raises MalformedError (``run_unknown``) if it is None."""
    if view is None:
        raise unknown_run(run_id)
    return view
