"""Registries on the loopback: devpi, Verdaccio, and files over HTTP with the digests that Maven asks for."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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

    def requests(self) -> list[str]:
        """Return the paths that it was asked for since the last call."""
        found = [f"/{each}" for each in self.seen]
        self.seen.clear()
        return found

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
def served_files(*folders: Path, certificate: Path | None = None) -> Iterator[Files]:
    """Serve the files of ``folders``; over TLS with a ``certificate`` of ``make_certificate``."""
    files = Files(folders)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and content are two writes

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
    files.address = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.with_name("server.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def maven_central(certificate: Path) -> Iterator[Files]:
    """Serve the Maven artifacts of Debian's packages: those of the system, and those that were unpacked."""
    with served_files(INSTALLATION / "debian" / _DEBIAN, Path("/", _DEBIAN), certificate=certificate) as files:
        yield files


class Server:
    """A registry in a process of its own, which logs each request. ``pattern`` finds the path in a line of its log."""

    def __init__(self, argv: Sequence[str], address: str, ready: str, pattern: str) -> None:
        self.address, self._pattern = address, re.compile(pattern)
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait(ready)

    def requests(self) -> list[str]:
        """Return the paths of the log since the last call. A request of ours shows that the log is complete."""
        mark = f"/mark-{len(self._lines)}"
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.address + mark).close()  # noqa: S310 - of this host
        self._wait(mark)
        with self._news:
            found = [match[1] for line in self._lines if (match := self._pattern.search(line)) is not None]
            self._lines.clear()
        return [each for each in found if not each.startswith("/mark-")]

    def call(self, method: str, path: str, body: bytes | dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Return the answer to a request."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        kind = {"Content-Type": "application/json"} if isinstance(body, dict) else {}
        asked = urllib.request.Request(self.address + path, data, {**kind, **headers}, method=method)  # noqa: S310
        with urllib.request.urlopen(asked) as reply:  # noqa: S310
            return dict(json.loads(reply.read() or b"{}"))

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        self._process.wait()
        with self._news:
            self._news.notify_all()

    def _wait(self, word: str) -> None:
        with self._news:
            self._news.wait_for(lambda: self._process.poll() is not None or any(word in each for each in self._lines))
            assert any(word in each for each in self._lines), "".join(self._lines)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def devpi(folder: Path, wheels: Sequence[Path]) -> Iterator[Server]:
    """Serve ``wheels`` on an index of devpi, ``/root/dev/+simple``; its files are in ``folder``."""
    programs, port = INSTALLATION / "python/bin", _free_port()
    subprocess.run([programs / "devpi-init", "--serverdir", folder, "--no-root-pypi"], check=True, capture_output=True)
    argv = [str(programs / "devpi-server"), "--serverdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    server = Server(argv, f"http://127.0.0.1:{port}", "Serving on", r"\] (?:GET|HEAD) (\S+)")
    try:
        token = server.call("POST", "/+login", {"user": "root", "password": ""}, {})["result"]["password"]
        key = {"X-Devpi-Auth": base64.b64encode(f"root:{token}".encode()).decode(), "Accept": "application/json"}
        server.call("PUT", "/root/dev", {"type": "stage", "bases": [], "volatile": True}, key)
        for wheel in wheels:
            name, version, *_ = wheel.name.split("-")
            fields = {":action": "file_upload", "name": name, "version": version}
            lines = [f'--end\r\nContent-Disposition: form-data; name="{each}"\r\n\r\n{fields[each]}\r\n' for each in fields]
            lines.append(f'--end\r\nContent-Disposition: form-data; name="content"; filename="{wheel.name}"\r\n\r\n')
            body = "".join(lines).encode() + wheel.read_bytes() + b"\r\n--end--\r\n"
            server.call("POST", "/root/dev/", body, {**key, "Content-Type": "multipart/form-data; boundary=end"})
        server.requests()
        yield server
    finally:
        server.stop()


@contextmanager
def verdaccio(folder: Path, packages: Sequence[Path]) -> Iterator[Server]:
    """Serve ``packages``, published by npm, on Verdaccio; their files are in ``folder``."""
    port = _free_port()
    folder.mkdir()
    settings = {
        "storage": str(folder / "storage"),
        "auth": {"htpasswd": {"file": str(folder / "users"), "max_users": -1}},
        "packages": {"**": {"access": "$all", "publish": "$all"}},
        "log": {"type": "stdout", "format": "json", "level": "http"},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    program = str(INSTALLATION / "node/node_modules/.bin/verdaccio")
    address = f"http://127.0.0.1:{port}"
    argv = [program, "--config", str(folder / "config.yaml"), "--listen", address.removeprefix("http://")]
    server = Server(argv, address, "http address", r"requested '(?:GET|HEAD) ([^']+)'")
    try:
        for package in packages:
            key = f"--//127.0.0.1:{port}/:_authToken=x"
            publish = ["npm", "publish", "--registry", f"{address}/", key, "--loglevel=error"]
            subprocess.run(publish, cwd=package, check=True, capture_output=True)
        server.requests()
        yield server
    finally:
        server.stop()
