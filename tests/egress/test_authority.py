"""The authority of a pull: clients accept its certificates for the hosts of the policy only."""

from __future__ import annotations

import datetime as dt
import ssl

import pytest
from cryptography import x509

from gatewright.egress.authority import PullAuthority


def handshake(authority: PullAuthority, host: str, expected: str) -> str | None:
    """Connect in memory; return the protocol's version."""
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = authority.context(host, lambda _: None).wrap_bio(to_server, to_client, server_side=True)
    client = trust.wrap_bio(to_client, to_server, server_hostname=expected)
    for _ in range(3):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.version()


def authority(*hosts: str, days: int = 0) -> PullAuthority:
    return PullAuthority(hosts, dt.datetime.now(dt.UTC) + dt.timedelta(days=days))


@pytest.mark.parametrize("host", ["pypi.org", "a.wide.example", "10.0.0.1"])
def test_a_client_accepts_the_hosts_of_the_policy(host: str) -> None:
    assert handshake(authority("pypi.org", "*.wide.example", "10.0.0.1"), host, host) == "TLSv1.3"


@pytest.mark.parametrize("host", ["github.com", "pypi.org.evil.example", "10.0.0.1", "10.0.0.2"])
def test_a_client_accepts_no_other_host(host: str) -> None:
    hosts = ("pypi.org", "10.0.0.1") if host == "10.0.0.2" else ("pypi.org",)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"permitted subtree|excluded subtree"):
        handshake(authority(*hosts), host, host)
    assert handshake(authority(*hosts, host), host, host)


def test_another_server_name_ends_the_handshake() -> None:
    with pytest.raises(ssl.SSLError):
        handshake(authority("pypi.org", "files.example"), "pypi.org", "files.example")


@pytest.mark.parametrize("days", [-2, 2])
def test_the_certificates_hold_for_one_day(days: int) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"expired|not yet valid"):
        handshake(authority("pypi.org", days=days), "pypi.org", "pypi.org")


def test_each_pull_has_a_key_of_its_own() -> None:
    keys = {
        x509.load_pem_x509_certificate(authority("pypi.org").certificate).public_key().public_numbers()  # type: ignore[union-attr]
        for _ in range(2)
    }
    assert len(keys) == 2
