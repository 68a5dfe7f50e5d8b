"""What programs in a box need to use the egress gateway, their only connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Final, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from gatewright.egress.gateway import EgressGateway
from gatewright.errors import UnavailableError
from gatewright.sandbox import SandboxSession

#: The file of the gateway's certificate below the home of a program, and its variables: every client reads one of them.
_CERTIFICATE: Final = "gateway.pem"
#: The same for Java, whose usual word opens it, and the options by which Maven finds both.
_TRUSTSTORE: Final = "gateway.p12"
_WORD: Final = "changeit"
_OF_MAVEN: Final = (
    "-Dhttp.proxyHost=127.0.0.1 -Dhttps.proxyHost=127.0.0.1 -Dhttp.nonProxyHosts= -Dhttp.proxyPort={0} -Dhttps.proxyPort={0} "
    f"-Djavax.net.ssl.trustStore={{1}}/{_TRUSTSTORE} -Djavax.net.ssl.trustStorePassword={_WORD}"
)
_OF_CERTIFICATES: Final = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO"),
    *("npm_config_cafile", "GIT_SSL_CAINFO"),
)
_OF_PROXIES: Final = (
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "PIP_PROXY", "CARGO_HTTP_PROXY"),
    *("npm_config_https_proxy", "npm_config_proxy"),
)
_WITHOUT_PROXY: Final = ("NO_PROXY", "no_proxy", "npm_config_noproxy")
_MOST_OUTPUT: Final = 8 << 20
T = TypeVar("T")


def client_variables(home: str, port: int) -> dict[str, str]:
    """Return the variables by which every client finds the gateway, and nothing else."""
    return {
        **dict.fromkeys(_OF_PROXIES, f"http://127.0.0.1:{port}"),
        **dict.fromkeys(_WITHOUT_PROXY, ""),
        **dict.fromkeys(_OF_CERTIFICATES, f"{home}/{_CERTIFICATE}"),
        "HOME": home,
        "MAVEN_OPTS": _OF_MAVEN.format(port, home),
    }


def client_files(gateway: EgressGateway | None) -> dict[str, bytes]:
    """Return the files below the home by which every client trusts the gateway."""
    if gateway is None:
        return {_CERTIFICATE: b""}
    named = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(gateway.certificate), b"gateway")
    store = pkcs12.serialize_java_truststore([named], BestAvailableEncryption(_WORD.encode()))
    return {_CERTIFICATE: gateway.certificate, _TRUSTSTORE: store}


async def while_served(gateway: EgressGateway | None, listening: socket.socket, work: Coroutine[object, object, T]) -> T:
    """Return the result of ``work`` while the gateway serves. Without a gateway, nothing can be reached.

    Raises UnavailableError (``egress_gateway_ended``) if the gateway ends first; then ``work`` is cancelled.
    """
    if gateway is None:
        listening.close()
        return await work
    serving = asyncio.ensure_future(gateway.serve(listening))
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            cause = "it was stopped" if serving.cancelled() else str(serving.exception() or "it stopped")
            words = f"the egress gateway, the program's only connection, has failed: {cause}"
            raise UnavailableError(words, code="egress_gateway_ended")
        return working.result()
    finally:
        for task in (working, serving):
            task.cancel()
        await asyncio.gather(working, serving, return_exceptions=True)


async def read_output(session: SandboxSession) -> bytes:
    """Read the output of a program to its end, and keep its first 8 MiB."""
    kept = bytearray()
    while data := await session.read():
        kept += data[: _MOST_OUTPUT - len(kept)]
    return bytes(kept)
