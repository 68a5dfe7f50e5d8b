"""What open pages cost the console: 500 open runs, 50 pages that follow the board, and a few transitions a second.

Processor time of the console alone, its bus in memory with it; the pages are read by another process.

    python -m benchmarks.console_pages [SECONDS]
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.board.ledgers import make_run
from tests.console.conftest import ServedConsole

RUNS, PAGES, PAUSE = 500, 50, 0.2
READERS = """
import asyncio, sys
port, position, pages = sys.argv[1:]
async def follow():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(f"GET /events?view=board&after={position} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n".encode())
    while await reader.read(65536):
        pass
async def main():
    await asyncio.gather(*(follow() for _ in range(int(pages))))
asyncio.run(main())
"""


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as home:
        console = ServedConsole(Path(home))
        console.open()
        for number in range(RUNS):
            console.write(make_run(number, "open"))
        page = urllib.request.urlopen(console.url).read().decode()  # noqa: S310 - our own address
        found = re.search(r'data-at="([^"]+)"', page)
        assert found is not None
        readers = subprocess.Popen([sys.executable, "-c", READERS, str(console.port), found[1], str(PAGES)])
        coming = [entry for number in range(RUNS, 2 * RUNS) for entry in make_run(number)]
        begun, used, written = time.monotonic(), time.process_time(), 0
        while time.monotonic() - begun < seconds and written < len(coming):
            console.write(coming[written : written + 1])
            written += 1
            time.sleep(PAUSE)
        lasted, spent = time.monotonic() - begun, time.process_time() - used
        readers.kill()
        readers.wait()
        console.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{RUNS} open runs, {PAGES} pages, {written / lasted:.1f} transitions a second for {lasted:.0f} s")
    print(f"processor {spent / lasted:.2f} of one core, memory {memory:.0f} MB, a whole page {len(page) / 1000:.0f} kB")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
