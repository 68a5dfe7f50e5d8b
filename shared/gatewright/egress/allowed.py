"""Which addresses of the permitted hosts an installer may read in one pull.

An address itself can carry data out, in a name or a query. Addresses are therefore given before the pull, or named by an index
page of a registry during it.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Collection
from typing import Final, Protocol
from urllib.parse import quote, unquote, urljoin

from yarl import URL

from gatewright.egress.addresses import LONGEST, canonical_address
from gatewright.egress.policy import EgressSource, source_of
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.patterns import BytesPattern, TextPattern

#: Addresses that index pages may name in one pull; further ones are refused.
_MOST: Final = 500_000
_HREF: Final = BytesPattern(rb"""(?i)<a\s(?:[^<>"']|"[^"<]*"|'[^'<]*')*?\bhref\s*=\s*["']([^"'<>]+)["']""")
_SEPARATORS: Final = TextPattern(r"[-_.]+")
_CONFIGURATION: Final = "/config.json"
#: Paths of packages below an index; of Go modules also those of their files.
_INDEXES: Final = {
    "python": TextPattern(r"/(?P<name>[a-z0-9]{1,100}(?:-[a-z0-9]{1,100})*)/"),
    "node": TextPattern(r"/(?P<name>(?:@[A-Za-z0-9~_.-]{1,100}(?:/|%2F))?[A-Za-z0-9~][A-Za-z0-9~_.-]{0,200})"),
    "rust": TextPattern(r"/config\.json|(?:/[a-z0-9_-]{1,3}){1,2}/(?P<name>[a-z0-9_-]{1,64})"),
    "go": TextPattern(
        r"/(?P<name>[a-z0-9!._~/-]{1,300})/@(?:latest|v/list|v/(?P<version>v[0-9][A-Za-z0-9.!+-]{0,100})\.(?:info|mod|zip))"
    ),
}
#: A file of a Maven repository or the list of an artifact's versions, or the digest of either.
_MAVEN: Final = TextPattern(
    r"/(?P<group>[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)/(?P<name>[A-Za-z0-9_.-]+)/(?:maven-metadata\.xml|"
    r"(?P<version>[A-Za-z0-9_.-]+)/(?P<file>[A-Za-z0-9_.-]+)\.(?:aar|exe|jar|module|pom|so|tar\.gz|war|xml|zip))"
    r"(?:\.(?:md5|sha1|sha256|sha512))?"
)
#: Links that are canonical if their beginning is, in pip's encoding too: no character of their paths is ever encoded.
_PLAIN_LINK: Final = TextPattern(r"(?P<site>https?://[a-z0-9.:-]{1,300})(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_WORD: Final = BytesPattern(rb"([A-Za-z0-9_.-]{1,200})")
_UNLISTED: Final = "no index page of this pull names it: ask for the package's index first"


class AllowedAddresses(Protocol):
    """The addresses of one pull, in canonical form (``canonical_address``)."""

    def refusal(self, url: str) -> str:
        """Return why the address is refused; empty if it is allowed."""

    def reads(self, url: str) -> bool:
        """Return whether the answer names further addresses: ``learn`` then receives it before the client does."""

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        """Read the addresses that an answer names."""


class AnyAddress:
    """Everything that the hosts of the policy have: for commands of the operator. Names and queries can carry data to them."""

    def refusal(self, url: str) -> str:  # noqa: ARG002 - the protocol's
        return ""

    def reads(self, url: str) -> bool:  # noqa: ARG002 - the protocol's
        return False

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        pass


class IndexedAddresses:
    """Index pages of packages, and the files that an index page of this pull names.

    A page of one source may name files of another only if that one is public: its credential and network are not the page's.

    Args:
        sources: the registries. ``ecosystem`` names the protocol: the simple index of Python, packuments of npm, the sparse
            index of Cargo, or a proxy of Go modules. Other sources have files only.
        names: the packages that may be asked for; None: any. Go modules are ``MODULE@VERSION``.
        given: addresses that no page has to name.
    """

    def __init__(
        self, sources: tuple[EgressSource, ...], names: Collection[str] | None = None, given: Collection[str] = ()
    ) -> None:
        self._sources = sources
        plain = {_SEPARATORS.replaced(each.lower(), "-") for each in names or ()}
        self._names = None if names is None else frozenset(names) | plain | {each.lower() for each in names}
        self._linked = set(given)
        #: Beginnings of canonical links by the source whose pages may name them.
        self._sites: set[tuple[str, str]] = set()
        #: Of a Cargo registry: where its files are.
        self._downloads: dict[str, str] = {}

    def refusal(self, url: str) -> str:
        if url in self._linked:
            return ""
        source, path = self._place(url)
        name = _package(source, path)
        if source is None or name is None:
            return _UNLISTED
        if self._names is None or name in self._names or path == _CONFIGURATION:
            return ""
        versions = source.ecosystem == "go" and any(each.startswith(f"{name}@") for each in self._names)
        return "" if versions else f"{name[:100]!r} is no package of this pull: name it in the lock file"

    def reads(self, url: str) -> bool:
        source, path = self._place(url)
        name = _package(source, path)
        return name is not None and not (source is not None and source.ecosystem == "go" and "@" in name)

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        """Read the files that an index page names. A page that cannot be read names none."""
        source, path = self._place(url)
        if source is None:
            return
        try:
            match source.ecosystem:
                case "python":
                    links = _python_links(media_type, content)
                case "node":
                    links = [str(each["dist"]["tarball"]) for each in read_json(content)["versions"].values()]
                case "rust":
                    links = self._cargo_links(source, path, content)
                case _:
                    links = _go_links(url, content)
        except (UnreadableDocumentError, AttributeError, KeyError, TypeError):
            return
        for each in links[: _MOST - len(self._linked)]:
            self._link(source, url, each)

    def _cargo_links(self, source: EgressSource, path: str, content: bytes) -> list[str]:
        if path == _CONFIGURATION:
            place = str(read_json(content)["dl"])
            self._downloads[source.name] = place if "{" in place else place + "/{crate}/{version}/download"
            return []
        links = []
        for each in map(read_json, content.splitlines()):
            name, link = str(each["name"]), self._downloads.get(source.name, "")
            fields = {"crate": name, "version": str(each["vers"]), "sha256-checksum": str(each["cksum"])}
            for field, value in (fields | {"prefix": _prefix(name), "lowerprefix": _prefix(name.lower())}).items():
                link = link.replace(f"{{{field}}}", value)
            links.append(link)
        return links

    def _link(self, source: EgressSource, page: str, link: str) -> None:
        plain = _PLAIN_LINK.fullmatch(link) if len(link) <= LONGEST else None
        site = (source.name, plain["site"] if plain else "")
        # Each file of Python has a metadata file (PEP 658).
        ends = ("", ".metadata") if source.ecosystem == "python" else ("",)
        if site in self._sites:
            self._linked.update(link + end for end in ends)
            return
        try:
            target = canonical_address(urljoin(page, link))
        except ValueError:
            return
        owner = source_of(self._sources, target.scheme, str(target.raw_host), int(target.port or 0))
        if owner is source or (owner is not None and not owner.private and not owner.credential):
            # pip asks for a path in another encoding, which servers read alike: devpi has ``+`` in each.
            forms = {str(target), str(target.with_path(quote(unquote(target.raw_path)), encoded=True))}
            self._linked.update(form + end for form in forms for end in ends)
            if plain and str(target) == link:
                self._sites.add(site)

    def _place(self, url: str) -> tuple[EgressSource | None, str]:
        """Return the source of an address, and the path below its index; empty outside it."""
        parts = URL(url)
        source = source_of(self._sources, parts.scheme, str(parts.raw_host), int(parts.port or 0))
        base = source.index.rstrip("/") if source else ""
        inside = source is not None and parts.raw_path.startswith(base + "/") and not parts.raw_query_string
        return source, parts.raw_path[len(base) :] if inside else ""


class MavenAddresses(IndexedAddresses):
    """Files of a Maven repository whose group, name and version are words of a POM, or of a list of versions, of this pull.

    A name or a version may join two words, as in ``scala-library_${scala.version}``. ``named`` are the first POMs.
    """

    def __init__(self, sources: tuple[EgressSource, ...], named: Collection[bytes]) -> None:
        super().__init__(sources)
        self._words = {"", "tests"}
        for each in named:
            self.learn("", "", each)

    def refusal(self, url: str) -> str:
        parts = self._split(url)
        unknown = next((each for each in parts if not self._is_known(each)), "")
        return _UNLISTED if not parts else f"no POM of this pull has {unknown[:100]!r}" if unknown else ""

    def reads(self, url: str) -> bool:
        return url.endswith((".pom", "/maven-metadata.xml")) and bool(self._split(url))

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        del url, media_type
        self._words |= {each.decode() for each in itertools.islice(_WORD.groups(content), _MOST - len(self._words))}

    def _is_known(self, word: str) -> bool:
        cuts = ((word[:cut], word[cut:]) for cut in range(len(word) + 1))
        return any(first in self._words and last in self._words for first, last in cuts)

    def _split(self, url: str) -> tuple[str, ...]:
        """Return group, name, version and classifier of a file; empty for any other address."""
        source, path = self._place(url)
        parts = _MAVEN.fullmatch(path) if source is not None and source.ecosystem == "java" else None
        if parts is None:
            return ()
        stem = f"{parts['name']}-{parts.get('version', '')}"
        file = parts.get("file", stem)
        is_file = file == stem or file.startswith(f"{stem}-")
        return (
            (parts["group"].replace("/", "."), parts["name"], parts.get("version", ""), file[len(stem) + 1 :])
            if is_file
            else ()
        )


def _package(source: EgressSource | None, path: str) -> str | None:
    """Return the package that a path below an index asks for; None for every other path."""
    rule = _INDEXES.get(source.ecosystem) if source else None
    parts = rule.fullmatch(path) if rule else None
    if source is None or parts is None:
        return None
    name = parts.get("name", "").replace("%2F", "/")
    if source.ecosystem == "go":
        first, *others = f"{name}@{parts['version']}".split("!") if "version" in parts else name.split("!")
        return first + "".join(each[:1].upper() + each[1:] for each in others)
    # A Cargo index has one path for each name: another one would carry data.
    return name if source.ecosystem != "rust" or path in {_CONFIGURATION, f"/{_prefix(name)}/{name}"} else None


def _prefix(crate: str) -> str:
    return {1: "1", 2: "2", 3: f"3/{crate[:1]}"}.get(len(crate), f"{crate[:2]}/{crate[2:4]}")


def _python_links(media_type: str, content: bytes) -> list[str]:
    """Return the files of a page of the simple index (PEP 503 or 691)."""
    if "json" in media_type.lower():
        links = [str(each["url"]) for each in read_json(content)["files"]]
    else:
        links = [html.unescape(each.decode("utf-8", "replace")) for each in _HREF.groups(content)]
    return [each.partition("#")[0] for each in links]


def _go_links(url: str, content: bytes) -> list[str]:
    """Return the files of the versions in a list or an answer to ``@latest``."""
    base, _, end = url.rpartition("/@")
    versions = [read_json(content)["Version"]] if end == "latest" else content.decode("utf-8", "replace").split()
    return [f"{base}/@v/{each}.{kind}" for each in versions for kind in ("info", "mod", "zip")]
