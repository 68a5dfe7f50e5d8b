"""A provider of OpenID Connect as a double over HTTP: it holds clients to PKCE, and lies where it is told to."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT = "gatewright-console"
SECRET = "s3cret-of_the.console~and-nobody-else"

Claims = dict[str, Any]


def keep(claims: Claims) -> Claims:
    return claims


@dataclass
class IdentityProvider:
    """``person``: the claims of the one who signs in. ``spoil`` changes a token's claims, ``sign`` how it is signed."""

    person: Claims = field(default_factory=lambda: {"sub": "ana", "groups": ["staff", "gw-operators"]})
    spoil: Callable[[Claims], Claims] = keep
    sign: Callable[[IdentityProvider, Claims], str] | None = None
    describe: Callable[[Claims], Claims] = keep
    answer: Callable[[Claims], Claims] = keep
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, parameters={"kid": "one", "alg": "RS256"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    redeemed: list[str] = field(default_factory=list)
    #: What is answered in place of a document, by the end of the path.
    bodies: dict[str, bytes] = field(default_factory=dict)
    #: The end of the path whose answer is sent in chunks of a few bytes.
    chunked: str = ""
    #: Status and headers of what is answered in place of 200, by the end of the path.
    heads: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    #: The paths that were asked for.
    asked: list[str] = field(default_factory=list)
    _server: http.server.ThreadingHTTPServer | None = None

    @property
    def issuer(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}/realm"

    def open(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def description(self) -> Claims:
        made = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_response_iss_parameter_supported": True,
            "response_types_supported": ["code"],
        }
        return self.describe(made)

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser of a person who has given a password is sent."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urllib.parse.urlencode(back)}"

    def redeem(self, sent: dict[str, str], authorization: str) -> tuple[int, Claims]:
        """The token for a code, once, for the client that proves that it began (RFC 7636)."""
        asked = self.codes.pop(sent.get("code", ""), None)
        if authorization != "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode():
            return 401, {"error": "invalid_client"}
        verifier = sent.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        good = asked is not None and digest == asked["code_challenge"] and sent.get("redirect_uri") == asked["redirect_uri"]
        if asked is None or not good or sent.get("grant_type") != "authorization_code":
            return 400, {"error": "invalid_grant"}
        self.redeemed.append(sent["code"])
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.person}
        claims = self.spoil(claims)
        token = self.sign(self, claims) if self.sign is not None else signed(self, claims)
        return 200, self.answer({"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": token})


def signed(provider: IdentityProvider, claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, provider.key)


def unsigned(_provider: IdentityProvider, claims: Claims) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "none"}, claims))
    return b".".join(parts).decode() + "."


def signed_by_another(_provider: IdentityProvider, claims: Claims) -> str:
    other = RSAKey.generate_key(2048, parameters={"kid": "one"})
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, other)


def signed_with_the_secret(_provider: IdentityProvider, claims: Claims) -> str:
    """As every client that shares a secret could (RFC 8725, section 2.1)."""
    return jwt.encode({"alg": "HS256", "kid": "one"}, claims, OctKey.import_key(SECRET))


def _handler(provider: IdentityProvider) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            if parts.path.endswith("/authorize"):
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(urllib.parse.parse_qsl(parts.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif parts.path.endswith("/keys"):
                self._tell(200, {"keys": [provider.key.as_dict(private=False)]})
            else:
                self._tell(200, provider.description())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._tell(*provider.redeem(dict(urllib.parse.parse_qsl(body)), self.headers.get("Authorization", "")))

        def _tell(self, status: int, document: Claims) -> None:
            provider.asked.append(self.path)
            odd = next((body for end, body in provider.bodies.items() if self.path.endswith(end)), None)
            data = json.dumps(document).encode() if odd is None else odd
            status, headers = next((head for end, head in provider.heads.items() if self.path.endswith(end)), (status, {}))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            for name, value in headers.items():
                self.send_header(name, value)
            if provider.chunked and self.path.endswith(provider.chunked):
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                parts = [data[at : at + 50] for at in range(0, len(data), 50)]
                self.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b"")))
                return
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    return Handler
