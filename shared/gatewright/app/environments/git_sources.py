"""Git repositories that a baseline names by commit, read through the egress gateway.

1. a source of the ecosystem ``git`` in the operator's ``egress.json`` permits the host  2. the whole commit id is named, by
which git checks what it receives  3. the two addresses of a fetch may be read; a body is sent only to ``git-upload-pack``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.egress.addresses import canonical_address
from gatewright.egress.gateway import Sending
from gatewright.egress.policy import EgressPolicy, source_of
from gatewright.patterns import TextPattern

#: Hosts that npm knows by a short name, and for which it writes an address of ssh into its lock.
NPM_HOSTS: Final = {"github": "github.com", "gitlab": "gitlab.com", "bitbucket": "bitbucket.org"}
_SHORT: Final = TextPattern(r"(?:(?P<host>github|gitlab|bitbucket):)?(?P<path>[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+)")
_COMMIT: Final = TextPattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: Bytes of one request of git: the commits that it wants, and those that it has.
_MOST_BYTES: Final = 1 << 20
_POSTS: Final = ("POST",)
#: Git in the box neither asks for a password, nor reads the system's configuration, nor fetches objects of LFS.
GIT_VARIABLES: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository at ``url`` (https) and a whole commit id. ``reference``: ``branch``, ``tag`` or ``rev`` and its value."""

    url: str
    commit: str
    reference: tuple[str, str] | None = None

    def addresses(self) -> set[str]:
        """Return the canonical addresses of a fetch, also where the server adds ``.git``. Raises ValueError."""
        plain = self.url.rstrip("/").removesuffix(".git")
        ends = ("info/refs?service=git-upload-pack", "git-upload-pack")
        return {str(canonical_address(f"{base}/{end}")) for base in (plain, f"{plain}.git") for end in ends}


def cargo_git_source(text: str, installer: Installer) -> GitSource | None:
    """Return the repository of a crate's source in ``Cargo.lock``; None for text that is none.

    Raises NotPreparedError if it is not permitted.
    """
    if not text.startswith("git+"):
        return None
    address, _, commit = text.removeprefix("git+").partition("#")
    url, _, query = address.partition("?")
    named = [pair for pair in parse_qsl(query) if pair[0] in {"branch", "tag", "rev"}]
    return permitted(GitSource(url, commit, named[0] if named else None), installer)


def npm_git_source(text: object) -> GitSource | None:
    """Return the repository of a package in a lock or a package.json of npm; None for what is none over https.

    Its commit is what follows ``#``: ``permitted`` refuses all but a commit id.
    """
    address, _, commit = text.partition("#") if isinstance(text, str) else ("", "", "")
    if short := _SHORT.fullmatch(address):
        return GitSource(f"https://{NPM_HOSTS[short.get('host', 'github')]}/{short['path'].removesuffix('.git')}.git", commit)
    for host in NPM_HOSTS.values():
        address = address.replace(f"git+ssh://git@{host}/", f"git+https://{host}/", 1)
    return GitSource(address.removeprefix("git+"), commit) if address.startswith("git+https://") else None


def permitted(source: GitSource, installer: Installer) -> GitSource:
    """Return ``source``. Raises NotPreparedError if the operator does not permit its host, or it names no whole commit."""
    if _COMMIT.fullmatch(source.commit) is None:
        raise NotPreparedError(f"{source.url[:200]}: {source.commit[:80]!r} is no whole commit id, which git checks")
    if not is_permitted(source.url, installer):
        advice = "an operator permits it by a source of the ecosystem `git` in egress.json"
        raise NotPreparedError(f"{source.url[:200]} is a git repository that no policy permits: {advice}")
    return source


def is_permitted(url: str, installer: Installer) -> bool:
    """Return whether a source of the ecosystem ``git`` allows the address, which has neither user nor query."""
    try:
        parts, address = urlsplit(url), canonical_address(url)
    except ValueError:
        return False
    of_git = [each for each in (installer.egress.sources if installer.egress else ()) if each.ecosystem == "git"]
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return plain and source_of(of_git, address.scheme, str(address.raw_host), int(address.port or 0)) is not None


def git_addresses(sources: Iterable[GitSource]) -> set[str]:
    """Return the addresses that the gateway has to permit."""
    return {address for each in sources for address in each.addresses()}


def git_sending(policy: EgressPolicy) -> Sending | None:
    """Return what git may send in a pull; None without a source of git."""
    names = [each.name for each in policy.sources if each.ecosystem == "git"]
    return Sending(dict.fromkeys(names, _POSTS), _MOST_BYTES) if names else None
