"""What grows with what: ``python -m benchmarks.growth [--chart FILE.svg] [--figures FILE.json] [--runs 5] [--files 500 5000]``.

1. Files in the repository: a run that adds one file.
2. Files in the change: a run that adds so many files to a small repository.
3. Runs in the history: a small run after so many.
4. Shards: a run whose work is done in so many parts.
5. Workers: a task of one second, with so many workers that have thirty each.

Shown is processor time, of the whole stack unless stated otherwise: it holds on a busy machine, where times do not. Where a
line should be flat or straight, the ratio of its ends shows whether it is. All of it takes an hour of one core. ``--history``
without sizes leaves that series out, and ``--figures`` keeps what was measured for the chart of a later go that leaves it out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import long_history
from benchmarks.large_repository import make_project
from benchmarks.processor import used_with_descendants
from benchmarks.scaling import running
from benchmarks.scaling_chart import Panel, draw
from benchmarks.waiting_work import MOST_SHARDS, SANDBOXED, WAITING, make_fields, scaled, waiting_request
from benchmarks.workload import make_patch, make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.stack.supervisor import Supervisor
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Artifact, Scope

WARM_UP = 2
#: Tasks of a second for each worker.
EACH = 30
Line = list[tuple[int, float]]
console = Console(highlight=False, width=120)


@dataclass(frozen=True)
class Sizes:
    """What each series goes through."""

    files: tuple[int, ...]
    changes: tuple[int, ...]
    history: tuple[int, ...]
    shards: tuple[int, ...]
    workers: tuple[int, ...]


WHOLE = Sizes((500, 5_000, 50_000, 200_000), (1, 100, 10_000), (200, 2_000, 20_000), (1, 4, 16, 64), (1, 4, 16, 64))


async def files(root: Path, counts: Sequence[int], runs: int) -> Line:
    """Milliseconds of a run that adds one file, by files in the repository."""
    found: Line = []
    async with running(root / "home", workers=1) as stack, Client.connect(stack.address) as client:
        for count in counts:
            repository = await asyncio.to_thread(make_project, root / f"files-{count}", count)
            requests = [make_request(repository, number) for number in range(WARM_UP + runs)]
            found.append((count, await _cost(stack, client, requests)))
            console.print(f"[dim]{count:,} files: {found[-1][1]:.0f} ms[/]")
    return found


async def changes(root: Path, counts: Sequence[int], runs: int) -> Line:
    """Milliseconds of a run, by the files that it adds."""
    found: Line = []
    repository = make_repository(root / "repository")
    async with running(root / "home", workers=1) as stack, Client.connect(stack.address) as client:
        for count in counts:
            requests = [await _wide(client, repository, count, number) for number in range(WARM_UP + runs)]
            found.append((count, await _cost(stack, client, requests)))
            console.print(f"[dim]{count:,} files in the change: {found[-1][1]:.0f} ms[/]")
    return found


async def _wide(client: Client, repository: Path, count: int, number: int) -> RunRequest:
    first = 1_000_000 * count + count * number
    patch: Artifact = await client.attach("patch", b"".join(make_patch(first + each) for each in range(count)))
    scope = Scope(allow=("large_diff",))
    return replace(make_request(repository, first), allowed_paths=("src/new",), artifacts=(patch,), scope=scope)


async def history(root: Path, lengths: Sequence[int], runs: int) -> Line:
    """Milliseconds of the gatekeeper for a small run, by runs before it."""
    found: Line = []
    for length in lengths:
        cost = await long_history.measure(root / f"history-{length}", length, runs)
        found.append((length, cost.processor * 1000))
        console.print(f"[dim]{length:,} runs before: {found[-1][1]:.0f} ms[/]")
    return found


async def shards(root: Path, counts: Sequence[int], runs: int) -> Line:
    """Milliseconds of a run, by its shards; each is a sandboxed command of a tenth of a second."""
    found: Line = []
    places = make_fields(root / "fields", (WARM_UP + runs) * len(counts), 0.1)
    async with running(root / "home", workers=2) as stack, Client.connect(stack.address) as client:
        for turn, count in enumerate(counts):
            first = turn * (WARM_UP + runs)
            requests = [waiting_request(places, SANDBOXED, first + number, count) for number in range(WARM_UP + runs)]
            found.append((count, await _cost(stack, client, requests)))
            console.print(f"[dim]{count} shards: {found[-1][1]:.0f} ms[/]")
    return found


async def workers(root: Path, counts: Sequence[int]) -> Line:
    """Milliseconds of a task that waits, by workers."""
    places = make_fields(root / "fields", -(-max(counts) * EACH // MOST_SHARDS))
    found: Line = []
    async with running(root / "home", workers=0) as stack, Client.connect(stack.address) as client:
        for count in counts:
            done = await scaled(stack, client, places, WAITING, count, EACH)
            found.append((count, done.processor / done.tasks * 1000))
            console.print(f"[dim]{count} workers: {found[-1][1]:.0f} ms[/]")
    return found


async def _cost(stack: Supervisor, client: Client, requests: Sequence[RunRequest]) -> float:
    """Milliseconds of processor time of one, the mean without the first ones."""
    before = 0.0
    for number, request in enumerate(requests):
        if number == WARM_UP:
            before = _processor(stack)
        await succeeded(client, await client.submit_request(request, patience=60.0), 1200)
    return (_processor(stack) - before) * 1000 / (len(requests) - WARM_UP)


def _processor(stack: Supervisor) -> float:
    members = [member for member in stack.members if member.pid and member.name != "fork-server"]
    return sum(used_with_descendants(member.pid) for member in members if member.pid)


async def measure(root: Path, sizes: Sizes, runs: int) -> Mapping[str, tuple[str, Line]]:
    """By title: what is counted across, and the line; a series without sizes is left out."""
    found: dict[str, tuple[str, Line]] = {}
    if sizes.files:
        found["a run that adds one file"] = ("files in the repository", await files(root / "files", sizes.files, runs))
    if sizes.changes:
        found["a run that adds files"] = ("files in the change", await changes(root / "changes", sizes.changes, runs))
    if sizes.history:
        found["gatekeeper, a small run"] = ("runs in the history", await history(root / "history", sizes.history, runs))
    if sizes.shards:
        found["a run in shards"] = ("shards", await shards(root / "shards", sizes.shards, runs))
    if sizes.workers:
        found["a task that waits"] = ("workers", await workers(root / "workers", sizes.workers))
    return found


def show(found: Mapping[str, tuple[str, Line]]) -> None:
    table = Table("processor time of", "by", "milliseconds", "last / first", "grew by")
    for title, (across, line) in found.items():
        points = ", ".join(f"{count:,}: {value:.0f}" for count, value in line)
        ratio = line[-1][1] / line[0][1]
        table.add_row(title, across, points, f"{ratio:.2f}", f"{line[-1][0] / line[0][0]:,.0f}")
    console.print(table)


def panels(found: Mapping[str, tuple[str, Line]]) -> list[Panel]:
    return [
        Panel(title, across, {"ms of processor time": line}, _top(max(value for _, value in line)), straight=True)
        for title, (across, line) in found.items()
    ]


def _top(most: float) -> float:
    """A round level above ``most``."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(part * power for part in (1, 2, 4, 6, 8, 10) if part * power >= most)


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chart", type=Path, help="where to draw it, as SVG")
    parser.add_argument("--runs", type=int, default=5, help="runs of each size")
    for series in fields(Sizes):
        parser.add_argument(f"--{series.name}", type=int, nargs="*", default=getattr(WHOLE, series.name))
    parser.add_argument(
        "--figures", type=Path, help="as JSON: what was measured is put there, what is left out is taken from it"
    )
    given = parser.parse_args(words)
    sizes = Sizes(*(tuple(getattr(given, series.name)) for series in fields(Sizes)))
    with tempfile.TemporaryDirectory(prefix="gatewright-growth-") as folder:
        Path(folder).chmod(0o755)
        found = asyncio.run(measure(Path(folder), sizes, given.runs))
    if given.figures is not None:
        kept = json.loads(given.figures.read_text()) if given.figures.exists() else {}
        found = {title: (across, [(x, y) for x, y in line]) for title, (across, line) in {**kept, **found}.items()}
        given.figures.write_text(json.dumps(found, indent=1))
    show(found)
    if given.chart is not None:
        draw(given.chart, panels(found))


if __name__ == "__main__":
    main(sys.argv[1:])
