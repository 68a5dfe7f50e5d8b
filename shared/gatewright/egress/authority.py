"""The certificate authority of one pull: a new key in memory, for the hosts of the policy only, and for one day."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from collections.abc import Callable, Iterable
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = dt.timedelta(days=1)
_SKEW: Final = dt.timedelta(hours=1)
_USAGES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
_EVERY_ADDRESS: Final = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class PullAuthority:
    """Signs the certificates with which the gateway answers for permitted hosts.

    Clients accept none of them for another host: the authority's certificate is constrained to ``hosts`` (names, ``*.suffix``,
    IPv4 addresses).
    """

    def __init__(self, hosts: Iterable[str], now: dt.datetime) -> None:
        self._now = now
        #: The key and the certificate of each host that was asked for.
        self._chains: dict[str, bytes] = {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        # All servers use one key: it never leaves this process, and each certificate names one host.
        self._server_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gatewright egress authority of one pull")])
        permitted = [_general_name(each.removeprefix("*."), network=True) for each in sorted({*hosts})]
        addresses = any(isinstance(each, x509.IPAddress) for each in permitted)
        excluded = None if addresses else [x509.IPAddress(each) for each in _EVERY_ADDRESS]
        certificate = (
            self._builder(self._name, self._key.public_key(), authority=True)
            .add_extension(x509.NameConstraints(permitted, excluded), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        self._secret = self._server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def context(self, host: str, see: Callable[[str | None], None]) -> ssl.SSLContext:
        """Return the TLS settings of one connection for ``host``.

        ``see`` receives the name that the client asks for (SNI); the handshake fails if it is not ``host``.
        """
        name = _general_name(host)
        wanted = None if isinstance(name, x509.IPAddress) else host  # RFC 6066: no address is a server name

        def check(_: ssl.SSLObject | ssl.SSLSocket, asked: str | None, __: ssl.SSLContext) -> int | None:
            see(asked)
            return None if asked == wanted else ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

        if host not in self._chains:
            leaf = (
                self._builder(x509.Name([]), self._server_key.public_key(), authority=False)
                .add_extension(x509.SubjectAlternativeName([name]), critical=True)
                .sign(self._key, hashes.SHA256())
            )
            self._chains[host] = self._secret + leaf.public_bytes(serialization.Encoding.PEM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = check
        with os.fdopen(os.memfd_create("egress"), "wb") as file:  # the library reads keys from files only
            file.write(self._chains[host])
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.CertificateBuilder:
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        usage = x509.KeyUsage(**{each: each == ("key_cert_sign" if authority else "digital_signature") for each in _USAGES})
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(self._now + _DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        )
        if authority:
            return builder
        return builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)


def _general_name(host: str, *, network: bool = False) -> x509.GeneralName:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return x509.DNSName(host)
    return x509.IPAddress(ipaddress.ip_network(address) if network else address)
