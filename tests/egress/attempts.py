"""The list of attempts of an installer to leave a pull: each changes one thing in an honest request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatewright.canary import new_canary
from tests.egress.registry import FILES, FOREIGN, INDEX, OTHER

PAGE = "/simple/demo/"


@dataclass(frozen=True)
class Attempt:
    """A tunnel and what is sent in it; ``{port}`` is the registry's. ``tunnel`` None: sent without one."""

    tunnel: str | None = f"{INDEX}:{{port}}"
    sni: str | None = INDEX
    line: str = f"GET {PAGE} HTTP/1.1"
    host: str = f"Host: {INDEX}:{{port}}"
    headers: tuple[str, ...] = ()
    end: str = "\r\n"
    body: str = ""

    def text(self, port: int) -> str:
        lines = [self.line, self.host, *self.headers] if self.host else [self.line, *self.headers]
        return (self.end.join([*lines, "", ""]) + self.body).replace("{port}", str(port))


HONEST = Attempt()
#: Attempt, and reason of the refusal.
ROWS: dict[str, tuple[Attempt, str]] = {}


def add(code: str, rows: Mapping[str, Attempt]) -> None:
    ROWS.update({name: (attempt, code) for name, attempt in rows.items()})


def lined(line: str) -> Attempt:
    return Attempt(line=line)


def headed(*headers: str, body: str = "") -> Attempt:
    return Attempt(headers=headers, body=body)


def connected(place: str) -> Attempt:
    """A tunnel to another place, which TLS and ``Host`` name as well. No address is a server name (RFC 6066)."""
    host = place.partition(":")[0]
    return Attempt(tunnel=place, sni=None if host in {"[", "127.0.0.1", "169.254.169.254"} else host, host=f"Host: {place}")


# One host everywhere: CONNECT, TLS and Host.
add(
    "egress_host_mismatch",
    {
        "fronting by sni": Attempt(sni=FILES),
        "fronting by host": Attempt(host=f"Host: {FOREIGN}:{{port}}"),
        "fronting by all three": Attempt(sni=FILES, host=f"Host: {FOREIGN}:{{port}}"),
        "host of the same source": Attempt(host=f"Host: {FILES}:{{port}}"),
        "no server name": Attempt(sni=None),
        "no host": Attempt(host=""),
        "other port in host": Attempt(host=f"Host: {INDEX}:1"),
        "no port in host": Attempt(host=f"Host: {INDEX}"),
        "dot after host": Attempt(host=f"Host: {INDEX}.:{{port}}"),
        "upper-case host": Attempt(host=f"Host: {INDEX.upper()}:{{port}}"),
        "user in host": Attempt(host=f"Host: {INDEX}@{INDEX}:{{port}}"),
        "second request to another host": Attempt(host=f"Host: {OTHER}:{{port}}"),
    },
)
# Hosts that the policy does not have, and other spellings of hosts.
add("egress_host_refused", {"foreign host": connected(f"{FOREIGN}:{{port}}")})
SPELLINGS = {
    "address": "127.0.0.1",
    "decimal address": "2130706433",
    "octal address": "0177.0.0.1",
    "hexadecimal address": "0x7f.0.0.1",
    "hexadecimal word": "0x7f000001",
    "short address": "127.1",
    "loopback of version 6": "[::1]",
    "mapped address": "[::ffff:127.0.0.1]",
    "6to4 address": "[2002:7f00:1::1]",
    "nat64 address": "[64:ff9b::7f00:1]",
    "link-local address with a zone": "[fe80::1%25lo]",
    "metadata address": "169.254.169.254",
    "dot at the end": f"{INDEX}.",
    "upper case": INDEX.upper(),
    "punycode homograph": "xn--ndex-y6d.example",
    "percent encoding": "%69ndex.example",
    "user": f"{INDEX}@{FOREIGN}",
    "user before the host": f"user:key@{INDEX}",
    "suffix": f"{INDEX}.{FOREIGN}",
    "prefix": f"evil-{INDEX}",
    "empty label": "index..example",
    "null": "index.example%00.foreign.example",
    "onion": "duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion",
    "localhost": "localhost",
}
add("egress_host_refused", {name: connected(f"{host}:{{port}}") for name, host in SPELLINGS.items()})
add(
    "egress_host_refused",
    {
        "another port": connected(f"{INDEX}:22"),
        "default port": connected(INDEX),
        "port with a zero": connected(f"{INDEX}:0{{port}}"),
        "port beyond all": connected(f"{INDEX}:99999"),
        "port zero": connected(f"{INDEX}:0"),
        "negative port": connected(f"{INDEX}:-1"),
        "two ports": connected(f"{INDEX}:{{port}}:{{port}}"),
        "path in connect": connected(f"{INDEX}:{{port}}/"),
        "plain http": Attempt(tunnel=None, line=f"GET http://{INDEX}:{{port}}{PAGE} HTTP/1.1"),
        "own door": Attempt(tunnel=None, line=f"GET {PAGE} HTTP/1.1"),
        "https without a tunnel": Attempt(tunnel=None, line=f"GET https://{INDEX}:{{port}}{PAGE} HTTP/1.1"),
        "ftp": Attempt(tunnel=None, line=f"GET ftp://{INDEX}/ HTTP/1.1"),
        "file": Attempt(tunnel=None, line="GET file:///etc/passwd HTTP/1.1"),
    },
)
# Methods, and headers that stand for one.
for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "MKCOL", "REPORT", "GETX"):
    add("egress_method_refused", {f"method {method}": lined(f"{method} {PAGE} HTTP/1.1")})
add("egress_request_malformed", {"method in lower case": lined(f"get {PAGE} HTTP/1.1")})
for override in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"):
    add("egress_request_malformed", {f"header {override}": headed(f"{override}: POST")})
# Paths that servers read differently.
PATHS = {
    "double slash": "//simple/demo/",
    "double slash inside": "/simple//demo/",
    "dot segment": "/simple/./demo/",
    "dot dot": "/simple/x/../demo/",
    "encoded dot dot": "/simple/x/%2e%2e/demo/",
    "half encoded dot dot": "/simple/x/.%2E/demo/",
    "doubly encoded dot dot": "/simple/x/%252e%252e/demo/",
    "encoded slash": "/simple%2fdemo/",
    "scope with dot dot": "/@x%2f../demo/",
    "null": "/simple/demo%00/",
    "control": "/simple/demo%0d%0aHost:x/",
    "delete character": "/simple/demo%7f/",
    "backslash": "/simple\\demo/",
    "encoded backslash": "/simple%5cdemo/",
    "path parameter": "/simple/..;/demo/",
    "encoded path parameter": "/simple/..%3b/demo/",
    "high byte": "/simple/d%e9mo/",
    "broken encoding": "/simple/%zz/",
    "fragment": "/simple/demo/#x",
}
add("egress_address_refused", {f"path with {name}": lined(f"GET {path} HTTP/1.1") for name, path in PATHS.items()})
add("egress_address_refused", {"old version": lined(f"GET {PAGE} HTTP/1.0")})
add(
    "egress_address_refused",
    {
        "absolute form with another host": lined(f"GET https://{FOREIGN}/ HTTP/1.1"),
        "absolute form with the same host": lined(f"GET https://{INDEX}:{{port}}{PAGE} HTTP/1.1"),
        "asterisk": lined("GET * HTTP/1.1"),
    },
)
# Two readings of one message.
add(
    "egress_request_malformed",
    {
        "two lengths": headed("Content-Length: 0", "Content-Length: 3", body="abc"),
        "length and chunks": headed("Content-Length: 0", "Transfer-Encoding: chunked", body="0\r\n\r\n"),
        "chunks": headed("Transfer-Encoding: chunked", body="0\r\n\r\n"),
        "identity chunks": headed("Transfer-Encoding: identity"),
        "length with a plus": headed("Content-Length: +0"),
        "lengths in one line": headed("Content-Length: 0, 3"),
        "body": headed("Content-Length: 3", body="abc"),
        "trailer": headed("Trailer: Host"),
        "expectation": headed("Expect: 100-continue"),
        "folded line": headed("Accept: */*", " folded: yes"),
        "tab before a name": headed("\tHost: x"),
        "space before the colon": headed("Content-Length : 0"),
        "no colon": headed("Accept"),
        "empty name": headed(": x"),
        "line feeds only": Attempt(end="\n"),
        "carriage returns only": Attempt(headers=("A: b\rHost: x",)),
        "null in a header": headed("A: b\x00c"),
        "high byte in a header": headed("A: \xe9"),
        "two hosts": headed(f"Host: {FOREIGN}"),
        "two authorizations": headed("Authorization: a", "Authorization: b"),
        "hop-by-hop host": headed("Connection: close, Host"),
        "upgrade": headed("Connection: Upgrade", "Upgrade: websocket"),
        "upgrade without connection": headed("Upgrade: h2c"),
        "http2 settings": headed("HTTP2-Settings: AAMAAABkAAQAAP__"),
        "websocket": headed("Sec-WebSocket-Key: x"),
        "packed body": headed("Content-Encoding: gzip"),
        "homograph": Attempt(tunnel=f"\u0456{INDEX[1:]}".encode().decode("latin-1") + ":{port}"),
        "many headers": headed(*(f"A{number}: b" for number in range(100))),
        "long header": headed("A: " + "b" * 20_000),
        "long target": lined(f"GET /{'a' * 20_000} HTTP/1.1"),
        "two spaces": lined(f"GET  {PAGE} HTTP/1.1"),
        "tab in the line": lined(f"GET\t{PAGE} HTTP/1.1"),
        "no version": lined(f"GET {PAGE}"),
        "http 2": lined(f"GET {PAGE} HTTP/2.0"),
        "http 2 preface": Attempt(line="PRI * HTTP/2.0", host="", body="SM\r\n\r\n"),
        "space in the target": lined(f"GET {PAGE} x HTTP/1.1"),
    },
)


add(
    "canary_leaked",
    {
        "canary in the query": lined(f"GET {PAGE}?a={new_canary()} HTTP/1.1"),
        "canary in the path": lined(f"GET /{new_canary()} HTTP/1.1"),
    },
)
