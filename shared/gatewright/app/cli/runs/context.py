"""What a run has come to, as the command line asks for it and shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatewright.app.cli.context import find_place
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.sources import find_run
from gatewright.app.cli.session import attach_client
from gatewright.contracts import CanonicalMemory, RunContext
from gatewright.order_artifacts.canonical_memory import lines_of as told
from gatewright.prompts.fence import fence_text
from gatewright.view.safe_text import printable


async def ask_context(wanted: str, selectors: Sequence[str], *, full: bool) -> RunContext:
    """Ask the gatekeeper. Raises MalformedError (``run_unknown``, ``run_expired``), UnavailableError, BusError."""
    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        return await client.context(run_id, selectors, scope="full" if full else "brief")


async def ask_memory(repository: str) -> CanonicalMemory:
    """Ask the gatekeeper. Raises MalformedError (``memory_unknown``, ``bad_url``), UnavailableError, BusError."""
    place = find_place()
    folder = place.here / repository
    async with attach_client(place.bus, place.home) as client:
        return await client.memory(str(folder.resolve()) if folder.is_dir() else repository)


def memory_lines(memory: CanonicalMemory) -> Iterator[str]:
    """As models are shown it: data behind a fence."""
    yield from fence_text("canonical memory of earlier runs", "\n".join(told(memory))).split("\n")


def lines_of(found: RunContext) -> Iterator[str]:
    """Every section as it was answered: a block of data, its line ends kept and everything else printable."""
    for section in found.sections:
        yield f"{section.selector}{' (cut: --full tells more)' if section.cut else ''}"
        yield from (printable(line) for line in section.text.split("\n"))
