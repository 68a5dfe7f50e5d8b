"""The bus on NATS JetStream, through nats-py.

That loads an HTTP library for its WebSocket transport wherever one is installed, which the bus never uses: start-up time and
11 MB of every process. So it is loaded here, once, without.
"""

import importlib
import sys

if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # an import of it fails while this stands
    try:
        importlib.import_module("nats.aio.transport")
    finally:
        del sys.modules["aiohttp"]
