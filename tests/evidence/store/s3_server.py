"""A server that speaks as much S3 as is asked of a store of bundles, in this process, and that can be told to misbehave.

It keeps versions and locks as a bucket with object lock does, checks whose key a request names, and remembers every request.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "evidence"
ACCESS_KEY, SECRET_KEY = "AKIDTESTSTORE", "not-a-secret-of-anything"


class PowerCutError(Exception):
    """Raised by a hook that stands for the death of the process that asks."""


@dataclass
class Version:
    data: bytes
    number: str
    until: str = ""
    mode: str = ""
    held: bool = False


@dataclass
class Reply:
    """Of the status 0 nothing is sent: the connection breaks off."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


#: Is asked first: a reply in the place of the store's own, or None.
Hook = Callable[[str, str, "S3Server"], "Reply | None"]


@dataclass
class S3Server:
    """``objects``: by key, the newest version last. ``requests``: method and key, in order."""

    objects: dict[str, list[Version]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    hook: Hook | None = None
    #: What a store may lack.
    conditional: bool = True
    locks: bool = True
    keeps_locks: bool = True
    #: Of a bucket that keeps versions a deletion that names none leaves a marker, and the bytes.
    versioned: bool = True
    deny_writes: bool = False
    endpoint: str = ""
    markers: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: int = 0

    def newest(self, key: str) -> Version | None:
        return self.objects[key][-1] if self.objects.get(key) and key not in self.markers else None

    def overwrite(self, key: str, data: bytes) -> None:
        """As a writer does who holds the store's credentials."""
        self._put_version(key, data)

    def _put_version(self, key: str, data: bytes) -> Version:
        self.made += 1
        made = Version(data, str(self.made) if self.versioned else "null")
        self.objects.setdefault(key, []).append(made)
        self.markers.discard(key)
        return made

    def answer(self, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes) -> Reply:
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        self.requests.append((method, key or "?" + "&".join(sorted(query))))
        if self.hook is not None and (reply := self.hook(method, key, self)) is not None:
            return reply
        if bucket != BUCKET:
            return _error(404, "NoSuchBucket")
        if f"Credential={ACCESS_KEY}/" not in headers.get("authorization", ""):
            return _error(403, "AccessDenied")
        if not key and "object-lock" in query and self.locks:
            told = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
            return _xml(f"<ObjectLockConfiguration>{told}</ObjectLockConfiguration>")
        if not key:
            return self._list(query)
        match method:
            case "PUT":
                # A server that knows no holds takes the act for the object.
                return self._hold(key, body) if "legal-hold" in query and self.locks else self._put(key, headers, body)
            case "GET" | "HEAD":
                found = self.newest(key)
                return _error(404, "NoSuchKey") if found is None else Reply(200, found.data, self._headers(found))
            case "DELETE":
                return self._delete(key, query.get("versionId", [""])[0])
        return _error(405, "MethodNotAllowed")

    def _put(self, key: str, headers: dict[str, str], body: bytes) -> Reply:
        if self.deny_writes:
            return _error(403, "AccessDenied")
        until = headers.get("x-amz-object-lock-retain-until-date", "")
        if until and not self.locks:
            return _error(400, "InvalidRequest")
        if until and not {"content-md5", "x-amz-sdk-checksum-algorithm"} & headers.keys():
            return _error(400, "InvalidRequest")
        if hashlib.sha256(body).hexdigest() != headers.get("x-amz-content-sha256"):
            return _error(400, "XAmzContentSHA256Mismatch")
        if self.conditional and headers.get("if-none-match") == "*" and self.newest(key) is not None:
            return _error(412, "PreconditionFailed")
        version = self._put_version(key, body)
        if self.keeps_locks:
            version.until, version.mode = until, headers.get("x-amz-object-lock-mode", "")
        return Reply(200, b"", {"ETag": f'"{version.number}"'})

    def _hold(self, key: str, body: bytes) -> Reply:
        found = self.newest(key)
        if found is None:
            return _error(404, "NoSuchKey")
        found.held = b"<Status>ON</Status>" in body
        return Reply()

    def _delete(self, key: str, number: str) -> Reply:
        if not number and self.versioned and self.newest(key) is not None:
            self.markers.add(key)
            return Reply(204)
        for version in [each for each in self.objects.get(key, []) if number in {"", each.number}]:
            if self.locks and (version.until or version.held):
                return _error(403, "AccessDenied")
            self.objects[key].remove(version)
        return Reply(204)

    def _headers(self, version: Version) -> dict[str, str]:
        told = {"ETag": f'"{version.number}"'}
        if version.until:
            told |= {"x-amz-object-lock-retain-until-date": version.until, "x-amz-object-lock-mode": version.mode}
        return {**told, **({"x-amz-object-lock-legal-hold": "ON"} if version.held else {})}

    def _list(self, query: dict[str, list[str]]) -> Reply:
        prefix = query.get("prefix", [""])[0]
        keys = sorted(key for key, versions in self.objects.items() if key.startswith(prefix) and versions)
        if "versions" in query:
            rows = [
                f"<Version><Key>{escape(key)}</Key><VersionId>{each.number}</VersionId></Version>"
                for key in keys
                for each in self.objects[key]
            ]
            return _xml(f"<ListVersionsResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListVersionsResult>")
        after = query.get("continuation-token", [""])[0]
        page = [key for key in keys if key > after][:PAGE]
        more = bool(page) and page[-1] != keys[-1]
        rows = [f"<Contents><Key>{escape(key)}</Key></Contents>" for key in page]
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        return _xml(f"<ListBucketResult>{truncated}{token}{''.join(rows)}</ListBucketResult>")


#: Objects that one list tells: few, so that lists go on.
PAGE = 3


def _error(status: int, code: str) -> Reply:
    return Reply(status, f"<Error><Code>{code}</Code><Message>words of the store</Message></Error>".encode())


def _xml(text: str) -> Reply:
    return Reply(200, text.encode(), {"Content-Type": "application/xml"})


@contextmanager
def serving(server: S3Server) -> Iterator[S3Server]:
    """``server``, listening; its address is ``endpoint``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with server.lock:
                reply = server.answer(self.command, parts.path, parse_qs(parts.query, keep_blank_values=True), headers, body)
            if reply.status == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in reply.headers and reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        server.endpoint = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
