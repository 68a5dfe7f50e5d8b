"""A listening socket for clients on the same host: a Unix socket in a folder that no other account can enter."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BACKLOG = 64


@contextmanager
def private_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield a socket and its path, both removed afterwards. The folder is our own, so that its path is short enough."""
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        path = Path(folder) / "models.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(_BACKLOG)
            yield listening, path
