"""Which of the operator's variables a git command that speaks to another host is left: proxies, certificates, the SSH agent.

Only commands for ``https`` and ``ssh`` are. One that works on a repository of this host runs what that repository may have a
say in, and sees none of them. ssh reads its own files (known hosts, keys) in the home folder of the user that Gatewright
runs as.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
#: Variables that git leaves to ssh, or to the library that it speaks HTTP with, as they are.
_LEFT: Mapping[str, tuple[str, ...]] = {"https": _PROXIES, "ssh": ("SSH_AUTH_SOCK",)}
#: What other programs read their trusted certificates from -> what git calls it.
_CERTIFICATES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}


@dataclass(frozen=True, slots=True)
class Transport:
    """``kept``: inherited variables that git is left; values may hold a password. ``certificates``: variables of git's own."""

    kept: Mapping[str, str] = field(repr=False)
    certificates: Mapping[str, str]


def transport(protocols: tuple[str, ...]) -> Transport:
    """What a command that may use these protocols is left of the environment of this process."""
    kept = {name: os.environ[name] for protocol in protocols for name in _LEFT.get(protocol, ()) if os.environ.get(name)}
    trusted = _CERTIFICATES.items() if "https" in protocols else ()
    return Transport(kept, {own: os.environ[name] for name, own in trusted if os.environ.get(name)})
