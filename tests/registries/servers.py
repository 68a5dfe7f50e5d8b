"""Registries on the loopback: files over HTTP with the digests that Maven asks for."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

#: Where ``make registries`` puts them.
INSTALLATION = Path(__file__).resolve().parents[2] / ".registries"
_DEBIAN = "usr/share/maven-repo"


@dataclass
class Files:
    """A server of the files of some folders. ``own`` are further ones, or other content; ``seen`` what it was asked for."""

    folders: tuple[Path, ...]
    own: dict[str, bytes] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    address: str = ""

    def content(self, path: str) -> bytes | None:
        """Return what it serves at ``path``; a digest of SHA-1 for each file, unless it has another one."""
        if path in self.own:
            return self.own[path]
        found = next((folder / path for folder in self.folders if (folder / path).is_file()), None)
        if found is not None:
            return found.read_bytes()
        plain = self.content(path.removesuffix(".sha1")) if path.endswith(".sha1") else None
        return None if plain is None else hashlib.sha1(plain, usedforsecurity=False).hexdigest().encode()


@contextmanager
def served_files(*folders: Path) -> Iterator[Files]:
    """Serve the files of ``folders``."""
    files = Files(folders)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            files.seen.append(path)
            found = files.content(path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    files.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def maven_central() -> Iterator[Files]:
    """Serve the Maven artifacts of Debian's packages: those of the system, and those that were unpacked."""
    with served_files(INSTALLATION / "debian" / _DEBIAN, Path("/", _DEBIAN)) as files:
        yield files
