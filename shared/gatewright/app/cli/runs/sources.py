"""Where past and present runs are read from: the ledger when there is a bus, else the bundles in the home folder.

Who looks at bundles alone loads nothing of a bus: the ledger's side is in ``ledger_source``.
"""

from __future__ import annotations

import contextlib
import glob
import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from gatewright.app.feed.claims import ToldClaims
from gatewright.contracts import OrchestratorEvent, codec
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.evidence.store.address import is_address, parse_run
from gatewright.foreign_documents import read_json
from gatewright.run.state import Run
from gatewright.view.run_view import RunView, view_of
from gatewright.view.stages import view_with_stages

if TYPE_CHECKING:
    from gatewright.app.cli.runs.waits import Wait

#: Runs that are named of those which a beginning of an id may mean.
_SHOWN = 5
_LONGEST_LINE = 16 << 20
#: A whole run id, as the gatekeeper makes them.
WHOLE_ID = re.compile(r"run-[0-9a-f]{20}")  # noqa: TID251 - linear: of a fixed length

RUNS_FOLDER = "runs"
EVENTS_FILE = "events.jsonl"


class _First(msgspec.Struct):
    ts: str


class RunPage(NamedTuple):
    """``views``: the newest first. ``more``: whether there are older ones. ``claims``: what was heard of their tasks."""

    views: tuple[RunView, ...]
    more: bool
    claims: ToldClaims = ToldClaims()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs themselves."""
        return tuple(view.run for view in self.views)


class RunSource(Protocol):
    """Read-only access to runs."""

    async def page(self, limit: int, before: str | None) -> RunPage:
        """The newest runs, or the newest of those before a run. Raises MalformedError (``run_unknown``) for an unknown one."""

    async def beginning(self, prefix: str) -> tuple[str, ...]:
        """The ids of some runs that begin so, the newest first; enough to see whether there is one, or more."""

    async def view(self, run_id: str) -> RunView:
        """One run. Raises MalformedError (code ``run_unknown``)."""

    async def output(self, uri: str) -> bytes:
        """What a command of a run printed, by its URI, where it lies in no bundle on this host. Raises GatewrightError."""

    async def waits(self, view: RunView) -> tuple[Wait, ...]:
        """What the run waits for now, as far as that can be seen."""

    async def system_waits(self) -> tuple[Wait, ...]:
        """What every open run waits for now, as far as that can be seen."""

    async def claims(self, run_id: str) -> ToldClaims:
        """What the gatekeeper has heard of the tasks of a run, where this identity may ask it; else nothing."""


#: By how much the clock of the events and that of the disk may differ.
_CLOCK_SECONDS = 1.0


class BundleSource:
    """Runs as their bundles on this host tell them. Reads events only; whether they are genuine is for ``verify``."""

    def __init__(self, home: Path, warn: Callable[[str], None], folder: str = RUNS_FOLDER) -> None:
        self._folder = home / folder
        self._warn = warn

    async def page(self, limit: int, before: str | None) -> RunPage:
        folders = self._newest_first()
        if before is not None and not any(folder.name == before for folder in folders):
            raise unknown_run(before)  # else the rest of them is what is older
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
            return ()  # a path names no run here
        return tuple(folder.name for folder in self._newest_first(prefix))

    def _newest_first(self, prefix: str = "") -> Iterator[Path]:
        """By when each run was begun, which is the first thing that is written of it, and never later than the last.

        So those that were written last are opened first, and of a long history no more than are asked for.
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

    async def waits(self, view: RunView) -> tuple[Wait, ...]:  # noqa: ARG002 - no system runs, and nothing goes on
        return ()

    async def system_waits(self) -> tuple[Wait, ...]:
        return ()

    async def claims(self, run_id: str) -> ToldClaims:  # noqa: ARG002 - no process has it
        return ToldClaims()


def read_events(path: Path) -> list[OrchestratorEvent]:
    """The events of a bundle; a last line that was cut off by a crash is left out. Raises MalformedError."""
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror}", code="invalid_input") from error
    return [codec.decode(line, OrchestratorEvent) for line in whole.split(b"\n") if line]


async def find_run(source: RunSource, wanted: str | None) -> str:
    """The id that ``wanted`` means: an id, the unambiguous beginning of one, or None for the newest run.

    Raises MalformedError (codes ``run_unknown``, ``run_ambiguous``).
    """
    if wanted is None:
        newest = await source.page(1, None)
        if not newest.runs:
            raise MalformedError("there are no runs yet", code="run_unknown")
        return newest.runs[0].run_id
    if WHOLE_ID.fullmatch(wanted):
        return wanted  # it is found, or not, by who reads it
    matching = await source.beginning(wanted) or await source.beginning(f"run-{wanted}")
    if wanted in matching:
        return wanted
    if not matching:
        raise unknown_run(wanted)
    if len(matching) > 1:
        raise MalformedError(f"{wanted} may be any of {', '.join(matching[:_SHOWN])}", code="run_ambiguous")
    return matching[0]


def run_of(given: str | None) -> str | None:
    """What of ``given`` says which run: the end of an address of a store, else all of it. Raises StoreError."""
    return parse_run(given)[1] if given is not None and is_address(given) else given


def _begun_at(folder: Path) -> float:
    """The time of a run's first event, in seconds since 1970; of one that cannot be read, 0."""
    with contextlib.suppress(OSError, ValueError), (folder / EVENTS_FILE).open("rb") as file:
        return datetime.fromisoformat(read_json(file.readline(_LONGEST_LINE), _First).ts).timestamp()
    return 0.0


def _changed_at(events: Path) -> float:
    """When a file was last written, in seconds since 1970; 0 for one that has just gone."""
    with contextlib.suppress(OSError):
        return events.stat().st_mtime
    return 0.0


def unknown_run(run_id: str) -> MalformedError:
    return MalformedError(f"there is no run {run_id}; `gatewright runs` lists them", code="run_unknown")


def _check_place(run: Run, bundle: Path) -> None:
    """Raises MalformedError (``other_run``) for the events of one run in the folder of another."""
    if run.run_id != bundle.name:
        raise MalformedError(
            f"{bundle} holds the events of {run.run_id}, not of the run that it is called by", code="other_run"
        )


def existing(view: RunView | None, run_id: str) -> RunView:
    """Raises MalformedError (``run_unknown``) where there is none."""
    if view is None:
        raise unknown_run(run_id)
    return view
