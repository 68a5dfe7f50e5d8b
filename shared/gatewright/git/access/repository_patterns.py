"""Matching of repositories and refs against a policy: addresses are compared by whole components, never as text.

``https://forge.example/acme`` covers ``https://forge.example/acme/tool.git`` and neither ``.../acme-evil/tool`` nor
``https://forge.example.evil/acme``. A local repository must be at its real path: a link, or a worktree of a repository
elsewhere, is covered only if its target is. An address that cannot be compared with certainty is covered only by ``*``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gatewright.errors import MalformedError
from gatewright.git.host.identity import PROTOCOLS, real_place
from gatewright.git.refs import check_landing_ref, parse_url

EVERYTHING = "*"
_BELOW = "/*"
_DEFAULT_PORTS = {"https": 443, "ssh": 22}
#: In the path of a remote address, servers interpret an encoded slash or dot differently.
_AMBIGUOUS = re.compile(r"[%\\?#\x00-\x20\x7f]")  # noqa: TID251 - linear: single characters


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """An address taken apart: how it is reached, at whom (``user@host:port``), and the components of its path."""

    protocol: str
    authority: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return "/" + "/".join(self.parts)

    def covers(self, other: RepositoryAddress) -> bool:
        """Return whether ``other`` is this place or below it."""
        same = (self.protocol, self.authority) == (other.protocol, other.authority)
        return same and other.parts[: len(self.parts)] == self.parts


def place_of(address: str) -> RepositoryAddress:
    """Return the parsed form of ``address``. Raises MalformedError (``bad_url``) for an ambiguous address."""
    source = parse_url(address, PROTOCOLS)
    if source.local:
        return RepositoryAddress("file", "", _path_parts(source.address, address))
    if "://" not in source.address:
        who, _, path = source.address.partition(":")
        user, _, host = who.rpartition("@")
        root = ("/",) if path.startswith("/") else ()
        return RepositoryAddress("scp", f"{user}@{host.lower()}", (*root, *_path_parts(_check_plain_path(path), address)))
    split = urlsplit(source.address)
    port = split.port or _DEFAULT_PORTS[source.protocol]
    authority = f"{split.username or ''}@{split.hostname or ''}:{port}"
    return RepositoryAddress(source.protocol, authority, _path_parts(_check_plain_path(split.path), address))


def check_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is valid in a policy: ``*``, or the address of a repository or of a place (ends in ``/`` or
    ``:``).

    Raises MalformedError (``bad_url``).
    """
    if pattern != EVERYTHING:
        _place_of_pattern(pattern)
    return pattern


def covers_address(address: str, patterns: tuple[str, ...]) -> bool:
    """Return whether one of ``patterns`` covers ``address``. Reads the file system for a local address."""
    if EVERYTHING in patterns:
        return True
    try:
        place = place_of(address)
    except MalformedError:
        return False
    places = [_place_of_pattern(pattern) for pattern in patterns]
    if not any(each.covers(place) for each in places):
        return False
    if place.protocol != "file":
        return True
    allowed = [os.path.realpath(each.path) for each in places if each.protocol == "file"]
    really = (Path(os.path.realpath(place.path)), real_place(place.path))
    return all(any(folder.is_relative_to(each) for each in allowed) for folder in really)


def check_ref_pattern(pattern: str) -> str:
    """``pattern`` when it is the full name of a ref, or of a folder of refs followed by ``/*``. Raises MalformedError."""
    check_landing_ref(pattern.removesuffix(_BELOW) + "/x" if pattern.endswith(_BELOW) else pattern)
    return pattern


def ref_covered(ref: str, patterns: tuple[str, ...]) -> bool:
    """Return whether one of ``patterns`` is ``ref`` or a folder above it."""
    return any(ref.startswith(each[:-1]) if each.endswith(_BELOW) else ref == each for each in patterns)


def _place_of_pattern(pattern: str) -> RepositoryAddress:
    if not pattern.endswith(("/", ":")):
        return place_of(pattern)
    place = place_of(pattern + "x")
    return RepositoryAddress(place.protocol, place.authority, place.parts[:-1])


def _check_plain_path(path: str) -> str:
    if _AMBIGUOUS.search(path):
        raise MalformedError("a path that can be read in two ways", code="bad_url")
    return path


def _path_parts(path: str, address: str) -> tuple[str, ...]:
    parts = tuple(part for part in path.split("/") if part)
    if not {".", ".."}.isdisjoint(parts):
        raise MalformedError(f"a path with . or .. in it: {address[:200]!a}", code="bad_url")
    return parts
