"""The part of a cluster's API that keeps Secrets, over HTTPS, with a service account and its rights."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.git.access.servers import make_certificate

NAMESPACE = "delivery"
TOKEN = "token-of-the-account"


@dataclass
class ClusterApi:
    """``secrets`` are documents by name; ``asked`` is method and name of each request; ``refuse``: methods without a right."""

    account: Path
    host: str
    port: int = 0
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refuse: set[str] = field(default_factory=set)

    def environment(self) -> dict[str, str]:
        return {
            "KUBERNETES_SERVICE_HOST": self.host,
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "GATEWRIGHT_SERVICE_ACCOUNT": str(self.account),
        }


@contextmanager
def cluster_api(folder: Path, host: str = "127.0.0.1") -> Iterator[ClusterApi]:
    """Listens on ``host`` while the context is entered."""
    authority = make_certificate(folder / "tls", host)
    account = folder / "account"
    account.mkdir()
    (account / "namespace").write_text(f"{NAMESPACE}\n")
    (account / "token").write_text(TOKEN)
    (account / "ca.crt").write_bytes(authority.read_bytes())
    api = ClusterApi(account, host)
    base = f"/api/v1/namespaces/{NAMESPACE}/secrets"

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, code: int, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _ask(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            document = json.loads(sent) if sent else {}
            name = self.path.removeprefix(base).strip("/") or document["metadata"]["name"]
            api.asked.append((self.command, name))
            if self.headers["Authorization"] != f"Bearer {TOKEN}" or self.command in api.refuse:
                self._answer(403, {"reason": "Forbidden"})
            elif self.command == "GET":
                self._answer(200, api.secrets[name]) if name in api.secrets else self._answer(404, {})
            elif (self.command == "POST") is (name in api.secrets):
                self._answer(409, {"reason": "AlreadyExists"})
            else:
                api.secrets[name] = document
                self._answer(200, document)

        do_GET = do_POST = do_PUT = _ask  # noqa: N815 - http.server names them

        def log_message(self, *_: object) -> None:
            """Tests read ``asked``."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.with_name("server.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        api.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
