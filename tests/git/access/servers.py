"""Servers on the loopback interface: git over https with tokens, a proxy that counts, one that says whatever a test wants."""

from __future__ import annotations

import base64
import contextlib
import http.server
import ipaddress
import os
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

READ, PUSH = "read-token-5e0a1f6b9c", "push-token-77d2c4e81a"
_CGI_LIMIT = 1 << 28


def make_certificate(folder: Path, host: str = "127.0.0.1") -> Path:
    """One PEM with a key and the certificate of ``host`` that it signs itself: server and authority in one."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "git server of a test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "authority.pem"
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return pem


@dataclass(frozen=True)
class SeenRequest:
    """What a client asked; ``password``: of its basic authorization."""

    method: str
    path: str
    password: str | None
    status: int


@dataclass
class GitServer:
    """Serves the bare repositories below ``root``. ``rights`` by token; without any, strangers may do all.

    ``redirect`` is a place that every request is sent to. ``swallow``: pushes are done, and never answered.
    """

    root: Path
    authority: Path
    rights: dict[str, frozenset[str]] = field(default_factory=dict)
    redirect: str | None = None
    swallow: bool = False
    seen: list[SeenRequest] = field(default_factory=list)
    port: int = 0
    host: str = "127.0.0.1"

    def url(self, name: str) -> str:
        return f"https://{self.host}:{self.port}/{name}"

    def passwords(self) -> set[str | None]:
        return {each.password for each in self.seen}

    def statuses(self, service: str) -> list[int]:
        return [each.status for each in self.seen if service in each.path and each.password is not None]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    git: GitServer

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def _serve(self, body: bytes) -> None:
        server, where = self.git, urlsplit(self.path)
        scheme, _, pair = self.headers.get("Authorization", "").partition(" ")
        password = base64.b64decode(pair).decode().partition(":")[2] if scheme == "Basic" else None
        pushes = "git-receive-pack" in self.path
        status = self._verdict(password, pushes)
        server.seen.append(SeenRequest(self.command, self.path, password, status))
        if status != 200:
            headers = {"Location": f"{server.redirect}{self.path}"} if status == 302 else {}
            if status == 401:
                headers["WWW-Authenticate"] = 'Basic realm="git"'
            self._answer(status, headers, f"no: {password}\n".encode())
            return
        answer = self._cgi(where.path, where.query, body)
        if server.swallow and pushes and self.command == "POST":
            self.close_connection = True
            self.connection.close()
            return
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._answer(int(headers.pop("Status", "200").split()[0]), headers, content)

    def _verdict(self, password: str | None, pushes: bool) -> int:
        server = self.git
        if server.redirect is not None:
            return 302
        if not server.rights:
            return 200
        if password not in server.rights:
            return 401
        return 200 if ("push" if pushes else "read") in server.rights[password] else 403

    def _cgi(self, path: str, query: str, body: bytes) -> bytes:
        variables = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "someone",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        return subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=True).stdout

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Quiet(http.server.ThreadingHTTPServer):
    """Clients that go away in the middle are what these tests are about."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextlib.contextmanager
def git_server(
    root: Path, certificate: Path, rights: Mapping[str, frozenset[str]] | None = None, host: str = "127.0.0.1"
) -> Iterator[GitServer]:
    """For the time of a block; ``certificate`` was made by ``make_certificate``."""
    told = GitServer(root, certificate, dict(rights or {}), host=host)
    server = _Quiet((host, 0), type("Handler", (_Handler,), {"git": told}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_name("server.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    told.port = server.server_address[1]
    with _serving(server):
        yield told


@contextlib.contextmanager
def hostile_server(certificate: Path, say: Callable[[ssl.SSLSocket], None]) -> Iterator[int]:
    """Every client that has sent its request is answered by ``say``; the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_name("server.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as client:
                        client.recv(65536)
                        say(client)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)


@dataclass
class CountingProxy:
    """``asked``: where its clients wanted to go, with the password of their basic authorization."""

    password: str | None
    port: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextlib.contextmanager
def counting_proxy(password: str | None = None) -> Iterator[CountingProxy]:
    """A proxy for the time of a block; with ``password`` it lets nobody through who does not send it."""
    told = CountingProxy(password)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            scheme, _, pair = self.headers.get("Proxy-Authorization", "").partition(" ")
            given = base64.b64decode(pair).decode().partition(":")[2] if scheme == "Basic" else None
            told.asked.append((self.path, given))
            if told.password is not None and given != told.password:
                self.send_response(407)
                self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as far:
                self.send_response(200)
                self.end_headers()
                _pass_on(self.connection, far)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    with _serving(server):
        yield told


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    ends = {one: other, other: one}
    while True:
        for end in select.select(list(ends), [], [])[0]:
            piece = end.recv(65536)
            if not piece:
                return
            ends[end].sendall(piece)


@contextlib.contextmanager
def _serving(server: http.server.ThreadingHTTPServer) -> Iterator[None]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
