"""What open pages cost the console: 500 open runs, 50 pages that follow the board, and a few transitions a second.

Processor time of the console alone, its bus in memory with it; the pages are read by another process, which notes when each
page received each transition: the lag, from before it is written until the page has it.

    python -m benchmarks.console_pages [SECONDS]
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.console.conftest import ServedConsole
from tests.view.ledgers import make_run

RUNS, PAGES, PAUSE = 500, 50, 0.2
#: Seconds that pages are given for the last transition.
LAST = 2.0
#: Ends with its input, and prints by page when each event came: its last sequence, and the time.
READERS = """
import asyncio, json, re, sys, time
port, position, pages = sys.argv[1:]
received = [[] for _ in range(int(pages))]
async def follow(page):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port), limit=1 << 24)
    writer.write(f"GET /events?view=board&after={position} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n".encode())
    while line := await reader.readline():
        if line.startswith(b"id: "):
            page.append((int(line.rpartition(b":")[2]), time.time()))
async def main():
    following = [asyncio.create_task(follow(page)) for page in received]
    await asyncio.to_thread(sys.stdin.read)
    for each in following:
        each.cancel()
    await asyncio.gather(*following, return_exceptions=True)
asyncio.run(main())
print(json.dumps(received))
"""


def lags(written: Mapping[int, float], received: Sequence[Sequence[tuple[int, float]]]) -> list[float]:
    """Seconds from each transition, by its sequence, until each page received it; infinite for one that never arrived."""
    found = []
    for page in received:
        events = iter(page)
        upto, at = 0, 0.0
        for sequence, begun in sorted(written.items()):
            while upto < sequence:
                upto, at = next(events, (max(written), float("inf")))
            found.append(at - begun)
    return found


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as home:
        console = ServedConsole(Path(home))
        console.open()
        for number in range(RUNS):
            console.write(make_run(number, "open"))
        page = urllib.request.urlopen(console.url).read().decode()  # noqa: S310 - our own address
        found = re.search(r'data-at="([^"]+)"', page)
        assert found is not None
        reading = [sys.executable, "-c", READERS, str(console.port), found[1], str(PAGES)]
        readers = subprocess.Popen(reading, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(LAST)
        coming = [entry for number in range(RUNS, 2 * RUNS) for entry in make_run(number)]
        sequence, written = int(found[1].rpartition(":")[2]), dict[int, float]()
        begun, used = time.monotonic(), time.process_time()
        while time.monotonic() - begun < seconds and len(written) < len(coming):
            written[sequence + len(written) + 1] = time.time()
            console.write([coming[len(written) - 1]])
            time.sleep(PAUSE)
        lasted, spent = time.monotonic() - begun, time.process_time() - used
        time.sleep(LAST)
        received, _ = readers.communicate()
        console.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    waited = sorted(lags(written, json.loads(received)))
    print(f"{RUNS} open runs, {PAGES} pages, {len(written) / lasted:.1f} transitions a second for {lasted:.0f} s")
    print(f"processor {spent / lasted:.2f} of one core, memory {memory:.0f} MB, a whole page {len(page) / 1000:.0f} kB")
    print(
        f"lag of {len(waited)} (each transition on each page): {1000 * statistics.median(waited):.0f} ms in the middle, "
        f"{1000 * waited[int(0.99 * len(waited))]:.0f} ms of 99 in 100, {1000 * waited[-1]:.0f} ms at most"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
