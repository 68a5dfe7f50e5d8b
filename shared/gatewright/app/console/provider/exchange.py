"""Communication with the provider: its description, the redirect to it, and the exchange of a code for checked claims.

Authlib implements OAuth 2.0 and checks the token's claims against the specification; joserfc verifies its signature. Calls
block.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from gatewright.app.console.provider.attempts import SignInAttempt, refusal
from gatewright.app.console.provider.settings import ProviderSettings, is_private_way
from gatewright.contracts.strict_json import parse
from gatewright.errors import GatewrightError, MalformedError, UnavailableError

#: Signatures with a public key alone: with a shared secret, or with none, a client could sign for its provider.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384")
#: Seconds that the provider's description counts, that one answer may take, and that clocks may differ by.
_FRESH, _PATIENCE, _LEEWAY = 300.0, 10.0, 60
_MOST_BYTES = 1_048_576
#: Reason of the error when the provider cannot be had.
UNAVAILABLE: Final = "sign_in_unavailable"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderDescription(msgspec.Struct, frozen=True):
    """The parts of OpenID Connect Discovery 1.0, section 3, that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


@dataclass(slots=True)
class ProviderExchange:
    """``clock``: monotonic seconds; ``now``: seconds of the epoch, which the times in a token are held against."""

    settings: ProviderSettings
    clock: Callable[[], float]
    now: Callable[[], float]
    _known: tuple[float, ProviderDescription] | None = None

    def address(self, attempt: SignInAttempt) -> str:
        """Return the address where a browser signs in. Raises UnavailableError (``sign_in_unavailable``)."""
        described = self.describe()
        with self._oauth_client(described) as client:
            address, _ = client.create_authorization_url(
                described.authorization_endpoint, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.verifier
            )
        return str(address)

    def claims(self, attempt: SignInAttempt, code: str, issuer: str | None) -> Mapping[str, Any]:
        """Return the provider's claims about the person who returned with ``code``; ``issuer`` is a parameter of the redirect.

        1. The answer is from the requested provider (RFC 9207). 2. The code is redeemed with the verifier of this attempt.
        3. The token is signed with a key of the provider. 4. It is from it, for this client and this attempt, and in time.

        Raises UnavailableError (``sign_in_unavailable``), DeniedError (``sign_in_refused``).
        """
        described = self.describe()
        # 1. Another provider's answer is not taken to this one.
        wanted = described.authorization_response_iss_parameter_supported
        if (issuer is not None or wanted) and issuer != described.issuer:
            raise refusal("the answer is not of the provider that was asked")
        # 2.
        token = self._redeem(described, attempt, code)
        signed = token.get("id_token")
        if not isinstance(signed, str) or len(signed) > _MOST_BYTES:
            raise refusal("the provider's answer has no token about the person")
        keys = self._get(described.jwks_uri)
        try:
            # 3.
            decoded = jwt.decode(
                signed,
                KeySet.import_key_set(keys),
                algorithms=list(ALGORITHMS),
                registry=JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False),
            )
            # 4.
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": described.issuer},
                    "aud": {"essential": True, "value": self.settings.file.client_id},
                },
                {"nonce": attempt.nonce, "client_id": self.settings.file.client_id, "access_token": token.get("access_token")},
            )
            claims.validate(now=int(self.now()), leeway=_LEEWAY)
        except (JoseError, AuthlibBaseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise refusal(f"the provider's token does not count ({type(error).__name__}: {str(error)[:200]})") from error
        return dict(claims)

    def describe(self) -> ProviderDescription:
        """The provider as it describes itself. Raises UnavailableError (``sign_in_unavailable``)."""
        known = self._known
        if known is not None and self.clock() - known[0] < _FRESH:
            return known[1]
        document = self._get(self.settings.file.issuer.rstrip("/") + "/.well-known/openid-configuration")
        try:
            described = msgspec.convert(document, ProviderDescription)
        except msgspec.ValidationError as error:
            raise _unavailable(f"the provider's description cannot be read: {error}") from error
        if described.issuer != self.settings.file.issuer:
            raise _unavailable(f"the provider calls itself {described.issuer[:200]}, and not as the file of this console does")
        if not all(is_private_way(getattr(described, name)) for name in _ENDPOINTS):
            raise _unavailable("the provider has addresses that others could read along on the way to")
        self._known = (self.clock(), described)
        return described

    def _redeem(self, described: ProviderDescription, attempt: SignInAttempt, code: str) -> Mapping[str, Any]:
        try:
            with self._oauth_client(described) as client:
                client.register_compliance_hook("access_token_response", _check_token)
                token = client.fetch_token(
                    described.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=attempt.verifier,
                )
        except AuthlibBaseError as error:
            raise refusal(f"the provider does not take the code ({str(error.error)[:80]})") from error
        except MalformedError as error:
            raise _unavailable(f"the provider's answer cannot be read: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError) as error:
            raise _unavailable(f"the provider cannot be asked: {type(error).__name__}") from error
        if not isinstance(token, Mapping):
            raise _unavailable("the provider's answer cannot be read")
        return token

    def _get(self, address: str) -> Any:
        try:
            with httpx2.Client(**self._connection()) as client, client.stream("GET", address) as answer:
                if answer.status_code != 200:
                    raise _unavailable(f"{address} answers {answer.status_code}")
                return parse(answer.read())
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _unavailable(f"{address} cannot be asked: {type(error).__name__}") from error
        except MalformedError as error:
            raise _unavailable(f"{address} cannot be read: {error}") from error

    def _oauth_client(self, described: ProviderDescription) -> OAuth2Client:
        file, secret = self.settings.file, self.settings.secret
        offered = described.token_endpoint_auth_methods_supported
        by_body = "client_secret_basic" not in offered and "client_secret_post" in offered
        method = "none" if secret is None else "client_secret_post" if by_body else "client_secret_basic"
        return OAuth2Client(
            file.client_id,
            secret,
            token_endpoint_auth_method=method,
            scope=" ".join(file.scopes),
            redirect_uri=self.settings.return_address,
            code_challenge_method="S256",
            **self._connection(),
        )

    def _connection(self) -> dict[str, Any]:
        """Return the settings of both clients: no redirect, no credentials of a .netrc, no proxy from the environment.

        Raises UnavailableError (``sign_in_unavailable``) when the certificates cannot be used.
        """
        ca_file = self.settings.ca_file
        try:
            context = _authorities(ca_file, ca_file.stat().st_mtime_ns if ca_file is not None else 0)
        except OSError as error:
            raise _unavailable(f"{ca_file} cannot be used: {type(error).__name__}") from error
        return {
            "transport": _BoundedTransport(verify=context, trust_env=False),
            "trust_env": False,
            "timeout": _PATIENCE,
            "follow_redirects": False,
            "headers": {"Accept-Encoding": "identity"},
        }


@lru_cache(maxsize=4)
def _authorities(ca_file: Path | None, _changed: int) -> ssl.SSLContext:
    """The certificates of ``ca_file``, or those of this host: reading them takes 20 ms, and a sign-in asks three times."""
    return ssl.create_default_context(cafile=ca_file)


class _BoundedTransport(httpx2.HTTPTransport):
    """Aborts a response that is too long or compressed before it is read: few bytes could unpack to very many."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises MalformedError; its ``stream`` does, too."""
        answer = super().handle_request(request)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            answer.close()
            raise MalformedError("the answer is compressed, and was asked for as it is")
        answer.stream = _BoundedStream(answer.stream)
        return answer


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if size > _MOST_BYTES:
                raise MalformedError(f"the answer has more than {_MOST_BYTES} bytes")
            yield part

    def close(self) -> None:
        self._stream.close()


def _check_token(answer: httpx2.Response) -> httpx2.Response:
    """Hold the answer to I-JSON before the library parses it. Raises MalformedError."""
    if answer.status_code < 500:
        parse(answer.content)
    return answer


def _unavailable(words: str) -> GatewrightError:
    return UnavailableError(words, code=UNAVAILABLE)
