"""Which of the operator's variables a git command that speaks to another host is left: proxies, certificates, the SSH agent.

Only commands for ``https`` and ``ssh`` are. One that works on a repository of this host runs what that repository may have a
say in, and sees none of them. ssh reads its own files (known hosts, keys) in the home folder of the user that Gatewright runs as.
"""

from __future__ import annotations

from collections.abc import Mapping

_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
#: Variables that git leaves to ssh, or to the library that it speaks HTTP with, as they are.
_LEFT: Mapping[str, tuple[str, ...]] = {"https": _PROXIES, "ssh": ("SSH_AUTH_SOCK",)}
#: What other programs read their trusted certificates from -> what git calls it.
_CERTIFICATES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}


def inherited(protocols: tuple[str, ...], environment: Mapping[str, str]) -> frozenset[str]:
    """The names of the variables that the command keeps. Their values may hold a password: they never stand in an argument."""
    return frozenset(name for protocol in protocols for name in _LEFT.get(protocol, ()) if environment.get(name))


def certificates(protocols: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of git's own for the certificates that the operator trusts."""
    if "https" not in protocols:
        return {}
    return {own: environment[name] for name, own in _CERTIFICATES.items() if environment.get(name)}
