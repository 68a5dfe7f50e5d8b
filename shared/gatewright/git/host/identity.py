"""Identity of repositories with different addresses: for locks and host budgets, and for the mirrors of this host.

``repository_identity`` prefers *the same*: two runs that could meet in one repository share a lock. It must therefore not
grant access. ``mirror_keys`` and ``real_place`` prefer *different*.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gatewright.errors import GitError
from gatewright.git.host.local_repository import find_repository
from gatewright.git.refs import Source, parse_url

PROTOCOLS = ("file", "https", "ssh")
_DEFAULT_PORTS = {"https": 443, "ssh": 22}


def repository_identity(url: str) -> str:
    """Return the identity of the repository at ``url``, however it is spelled. Reads the file system: not for an event loop.

    A local repository is its real common folder: the same through links, with and without ``.git``, and for all its
    worktrees. A remote one is host, non-default port and path, without the parts that servers commonly ignore: protocol,
    user, case, ``.git``, percent signs. Raises MalformedError (``bad_url``).
    """
    source = parse_url(url, PROTOCOLS)
    return real_place(source.address).as_uri() if source.local else "//" + _remote(source)


def mirror_keys(source: Source) -> tuple[str, ...]:
    """File names that the mirror of ``source`` may have, 40 hexadecimal digits each. Looks at the file system for a local one.

    More than one only where the repository cannot be read any more: those that it may have had then.
    """
    places = [source.address]
    if source.local:
        try:
            places = [str(find_repository(source.address).common)]
        except GitError:
            real = os.path.realpath(source.address)
            places = [f"{real}/.git", real, f"{real}.git"]
    return tuple(hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:40] for place in places)


def real_place(address: str) -> Path:
    """The folder that holds the objects and branches of the local repository at ``address``, without a link in its path.

    Where no repository can be read, the path itself without links.
    """
    try:
        return find_repository(address).common
    except GitError:
        return Path(os.path.realpath(address))


def _remote(source: Source) -> str:
    if "://" in source.address:
        split = urlsplit(source.address)
        host, port, path = split.hostname or "", split.port or 0, split.path
    else:
        where, _, path = source.address.partition(":")
        host, port = where.rpartition("@")[2], 0
    authority = host.lower().rstrip(".") + (f":{port}" if port not in (0, _DEFAULT_PORTS.get(source.protocol)) else "")
    plain = posixpath.normpath("/" + unquote(path).lstrip("/")).lstrip("/").removeprefix("~/")
    return f"{authority}/{plain.casefold().removesuffix('.git')}"
