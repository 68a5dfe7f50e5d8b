"""Registries on the loopback, as npm and cargo ask them, and a folder that go takes for a proxy: with small packages."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from gatewright.app.environments.node_recipe import PUBLIC_HOSTS


class Reply(NamedTuple):
    """An answer that is not just a page; ``length`` is announced in place of the body's own."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    length: int | None = None


@contextmanager
def served(
    pages: Mapping[str, bytes | Reply], asked: list[str] | None = None, credentials: list[str | None] | None = None
) -> Iterator[str]:
    """The address of a server that has ``pages`` by path, and appends what it is asked to ``asked``."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].replace("%2f", "/").replace("%2F", "/")
            if asked is not None:
                asked.append(path)
            if credentials is not None:
                credentials.append(self.headers["Authorization"])
            page = pages.get(path, Reply(404))
            reply = page if isinstance(page, Reply) else Reply(200, page)
            self.send_response(reply.status)
            headers = {"Content-Type": "text/html"} if path.endswith("/") else {}
            for name, value in {**headers, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(reply.body)
            self.close_connection = reply.length is not None

        do_HEAD = do_GET  # noqa: N815 - the name that the library calls

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class NpmRegistry:
    """``pages`` are what it serves; ``entries`` what a lock says of each package, at the public registry's address."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.entries: dict[str, dict[str, object]] = {}

    def add(self, name: str, files: Mapping[str, str], version: str = "1.0.0", **manifest: object) -> None:
        """A package of ``files``."""
        described = {"name": name, "version": version, **manifest}
        archive = packed({"package/package.json": json.dumps(described), **{f"package/{path}": files[path] for path in files}})
        path = f"/{name}/-/{name}-{version}.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
        address = f"https://{PUBLIC_HOSTS[0]}{path}"
        self.pages[path] = archive
        self.pages[f"/{name}"] = json.dumps(
            {
                "name": name,
                "dist-tags": {"latest": version},
                "versions": {version: {**described, "dist": {"tarball": address, "integrity": integrity}}},
            }
        ).encode()
        scripts = {"hasInstallScript": True} if "scripts" in manifest else {}
        self.entries[f"node_modules/{name}"] = {
            "version": version,
            "resolved": address,
            "integrity": integrity,
            "dev": True,
            **({"bin": manifest["bin"]} if "bin" in manifest else {}),
            **scripts,
        }

    def lock(self, manifest: Mapping[str, object], **more: object) -> str:
        """A package-lock.json of all packages, for a project with ``manifest``; ``more`` are further entries."""
        packages = {"": dict(manifest), **self.entries, **more}
        return json.dumps({"name": "top", "lockfileVersion": 3, "requires": True, "packages": packages})


def packed(files: Mapping[str, str]) -> bytes:
    """A compressed archive; the same for the same files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


def crate(name: str, source: str, address: str) -> dict[str, bytes]:
    """The pages of a sparse registry at ``address`` that has one crate, of version 1.0.0."""
    manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n'
    archive = packed({f"{name}-1.0.0/Cargo.toml": manifest, f"{name}-1.0.0/src/lib.rs": source})
    listed = {"name": name, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(archive).hexdigest(), "features": {}}
    return {
        "/config.json": json.dumps({"dl": f"{address}/crates"}).encode(),
        f"/{name[:2]}/{name[2:4]}/{name}": json.dumps({**listed, "yanked": False}).encode() + b"\n",
        f"/crates/{name}/1.0.0/download": archive,
    }


def go_proxy(folder: Path, module: str, source: str) -> str:
    """The address of a folder that has version 1.0.0 of ``module``."""
    place = folder / module / "@v"
    place.mkdir(parents=True)
    (place / "list").write_text("v1.0.0\n")
    (place / "v1.0.0.info").write_text('{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}')
    (place / "v1.0.0.mod").write_text(f"module {module}\n")
    with zipfile.ZipFile(place / "v1.0.0.zip", "w") as archive:
        archive.writestr(f"{module}@v1.0.0/go.mod", f"module {module}\n")
        archive.writestr(f"{module}@v1.0.0/lib.go", source)
    return f"file://{folder}"
