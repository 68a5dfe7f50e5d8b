"""Where past and present runs are read from: the ledger when there is a bus, else the bundles in the home folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gatewright.cli.view import RunView, view_of
from gatewright.client.client import Client
from gatewright.contracts import OrchestratorEvent, codec
from gatewright.errors import GatewrightError, MalformedError
from gatewright.ledger.run import Run

RUNS_FOLDER = "runs"
EVENTS_FILE = "events.jsonl"


class RunSource(Protocol):
    """Read-only access to runs."""

    async def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first."""

    async def view(self, run_id: str) -> RunView:
        """One run. Raises MalformedError (code ``run_unknown``)."""


class LedgerSource:
    """Runs as the ledger has them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def runs(self) -> tuple[Run, ...]:
        return await self._client.runs()

    async def view(self, run_id: str) -> RunView:
        view = view_of(await self._client.events(run_id))
        return _existing(view, run_id)


class BundleSource:
    """Runs as their bundles on this host tell them. Reads events only; whether they are genuine is for ``verify``."""

    def __init__(self, home: Path, warn: Callable[[str], None]) -> None:
        self._folder = home / RUNS_FOLDER
        self._warn = warn

    async def runs(self) -> tuple[Run, ...]:
        found = []
        for events in sorted(self._folder.glob(f"*/{EVENTS_FILE}")):
            try:
                view = view_of(read_events(events))
                if view is not None:
                    _check_place(view.run, events.parent)
            except GatewrightError as error:
                self._warn(f"{events.parent} is passed over: {error.message}")
            else:
                found += [view.run] if view else []
        return tuple(sorted(found, key=lambda run: (run.created_at, run.run_id)))

    async def view(self, run_id: str) -> RunView:
        bundle = self._folder / run_id
        if bundle.parent != self._folder or not (bundle / EVENTS_FILE).is_file():
            raise unknown_run(run_id)
        view = _existing(view_of(read_events(bundle / EVENTS_FILE)), run_id)
        _check_place(view.run, bundle)
        return replace(view, bundle=str(bundle))


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
    known = [run.run_id for run in await source.runs()]
    if wanted is None:
        if not known:
            raise MalformedError("there are no runs yet", code="run_unknown")
        return known[-1]
    if wanted in known:
        return wanted
    matching = [run_id for run_id in known if run_id.startswith((wanted, f"run-{wanted}"))]
    if not matching:
        raise unknown_run(wanted)
    if len(matching) > 1:
        raise MalformedError(f"{wanted} may be any of {', '.join(matching[:5])}", code="run_ambiguous")
    return matching[0]


def unknown_run(run_id: str) -> MalformedError:
    return MalformedError(f"there is no run {run_id}; `gatewright runs` lists them", code="run_unknown")


def _check_place(run: Run, bundle: Path) -> None:
    """Raises MalformedError (``other_run``) for the events of one run in the folder of another."""
    if run.run_id != bundle.name:
        raise MalformedError(
            f"{bundle} holds the events of {run.run_id}, not of the run that it is called by", code="other_run"
        )


def _existing(view: RunView | None, run_id: str) -> RunView:
    if view is None:
        raise unknown_run(run_id)
    return view
