"""The operator's variables that a git command for another host inherits: proxies, certificates, the SSH agent; and those by
which a signing program finds its keys.

Only commands for ``https`` and ``ssh`` get them. A command on a repository of this host runs what that repository may
influence, and sees none of them. ssh reads its own files (known hosts, keys) in the home folder of the user that Gatewright
runs as.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
#: Variables that git leaves to ssh, or to the library that it speaks HTTP with, as they are.
_LEFT: Mapping[str, tuple[str, ...]] = {"https": _PROXIES, "ssh": ("SSH_AUTH_SOCK",)}
#: By format of the signature: the socket of an agent, and the folders of gpg.
_KEYS: Mapping[str, tuple[str, ...]] = {"ssh": ("SSH_AUTH_SOCK",), "openpgp": ("HOME", "GNUPGHOME")}
#: Other programs' variables for trusted certificates -> git's name for each.
_CERTIFICATES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}


@dataclass(frozen=True, slots=True)
class Transport:
    """The environment of a transport. ``kept``: inherited variables, which may hold a password. ``certificates``: git's own."""

    kept: Mapping[str, str] = field(repr=False)
    certificates: Mapping[str, str]


def transport(protocols: tuple[str, ...]) -> Transport:
    """Return the variables of this process that a command with these protocols inherits."""
    kept = {name: os.environ[name] for protocol in protocols for name in _LEFT.get(protocol, ()) if os.environ.get(name)}
    trusted = _CERTIFICATES.items() if "https" in protocols else ()
    return Transport(kept, {own: os.environ[name] for name, own in trusted if os.environ.get(name)})


def key_variables(*formats: str) -> Mapping[str, str]:
    """Return the variables of this process by which programs that sign in these formats find their keys."""
    return {name: os.environ[name] for each in formats for name in _KEYS[each] if os.environ.get(name)}
