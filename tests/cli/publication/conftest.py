"""A sealed run in a home folder, a policy of sinks, and a web server that stores what is PUT."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gatewright.evidence.signing import keys
from tests.cli.conftest import Command, Said
from tests.cli.test_report import make_bundle

#: Is asked first: status and body in the place of the server's own, or None. Of the status 0 nothing is sent.
Hook = Callable[[str, str], "tuple[int, bytes] | None"]
TOKEN = "a-token-of-the-sink"


@dataclass
class WebStore:
    """What a web server stores by path. ``conditional``: it refuses a second PUT with ``If-None-Match: *``."""

    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    hook: Hook | None = None
    conditional: bool = True
    token: str = ""
    endpoint: str = ""

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        self.requests.append((method, path))
        instead = self.hook(method, path) if self.hook is not None else None
        if instead is not None:
            return instead
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return 401, b""
        if method == "GET":
            return (200, self.objects[path]) if path in self.objects else (404, b"")
        if headers.get("If-None-Match") == "*" and self.conditional and path in self.objects:
            return 412, b""
        self.objects[path] = body
        return 201, b""


@contextmanager
def serving(store: WebStore) -> Iterator[WebStore]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, data = store.answer(self.command, self.path, self.headers, body)
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        store.endpoint = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield store
        finally:
            listening.shutdown()
            thread.join()


@dataclass
class Desk:
    """A home folder with the bundle of a run that succeeded, and sinks."""

    command: Command
    folder: Path
    bundle: Path
    web: WebStore

    @property
    def home(self) -> Path:
        return self.folder / ".gatewright"

    @property
    def share(self) -> Path:
        return self.folder / "share"

    def sinks(self, *entries: dict[str, Any]) -> None:
        """Write the policy; each entry is the folder sink or the web sink with other fields."""
        usual = {"folder": str(self.share), "http": f"{self.web.endpoint}/up"}
        made = [
            {"kind": "folder", "name": each.get("kind", "folder"), "classifications": ["internal"], **each} for each in entries
        ]
        sinks = [{"address": usual.get(each["kind"], ""), **each} for each in made]
        (self.folder / "policies" / "sinks.json").write_text(json.dumps({"version": "1", "sinks": sinks}))

    def publish(self, *words: str | Path, to: str = "folder", run: str | Path | None = None) -> Said:
        return self.command("publish", run if run is not None else self.bundle.name, "--to", to, *words, "--json")

    def code(self, *words: str | Path, to: str = "folder", run: str | Path | None = None) -> str:
        """Return the code of a refusal, which must be one."""
        said = self.publish(*words, to=to, run=run)
        assert said.exit_code != 0, said
        return str(said.documents[-1]["error"]["code"])

    @property
    def written(self) -> dict[str, bytes]:
        """The files in the folder sink by their path, without the mark of the first write."""
        files = (path for path in self.share.rglob("*") if path.is_file() and path.name != "write-once")
        return {str(path.relative_to(self.share)): path.read_bytes() for path in files}

    @property
    def key(self) -> keys.PrivateKey:
        return keys.load(self.home / "keys" / "publication.pem")


@pytest.fixture
def desk(gatewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    bundle = make_bundle(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "share").mkdir()
    monkeypatch.setenv("GATEWRIGHT_POLICIES", str(tmp_path / "policies"))
    monkeypatch.setenv("GATEWRIGHT_SECRET_SCANNER", "patterns")
    with serving(WebStore()) as web:
        made = Desk(gatewright, tmp_path, bundle, web)
        made.sinks({}, {"kind": "http"})
        yield made
