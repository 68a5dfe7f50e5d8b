"""Plan of a bundle's files: paths, sources of their bytes, and missing sources. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.evidence import layout

#: The bytes of a file, or the URIs of the artifacts whose concatenated bytes are the file.
Content = bytes | tuple[str, ...]


class FilePlan:
    """Planned files, and missing ones as ``path: reason``.

    ``lost`` are URIs that the store does not have, ``withheld`` those that must not be included; ``left_out`` are the withheld
    URIs that some file would have used.
    """

    def __init__(self, lost: frozenset[str], withheld: frozenset[str]) -> None:
        self.missing: list[str] = []
        self.left_out: set[str] = set()
        self._lost = lost
        self._withheld = withheld
        self._files: dict[str, Content] = {}
        self._held: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def holds(self, uri: str) -> bool:
        """Return whether some file is this artifact, or would be if it were not lost."""
        return uri in self._held

    def bytes(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def text(self, path: str, line: str) -> None:
        self._put(path, f"{line}\n".encode())

    def document(self, path: str, document: Document) -> None:
        self._put(path, codec.encode(document))

    def artifact(self, path: str, uri: str) -> None:
        """Add a file that is one artifact; an empty URI means that nothing was stored."""
        if not uri:
            self._put(path, b"")
        elif self._usable(path, uri):
            self._put(path, (uri,))
            self._held.add(uri)

    def joined(self, path: str, uris: Iterable[str]) -> None:
        """Add a file that is the concatenation of several artifacts."""
        self._put(path, tuple(uri for uri in uris if uri and self._usable(path, uri)) or b"")

    def finished(self) -> dict[str, Content]:
        """Return all files, sorted.

        Raises:
            MalformedError: one path would be a folder of another.
        """
        for path in self._files:
            parts = path.split("/")
            if any("/".join(parts[:length]) in self._files for length in range(1, len(parts))):
                raise MalformedError(f"{path} would lie inside another file", code="unsafe_name")
        return dict(sorted(self._files.items()))

    def _usable(self, path: str, uri: str) -> bool:
        if layout.digest_of(uri) is None:
            self.missing.append(f"{path}: {uri[:100]!r} is not an artifact")
            return False
        if uri in self._withheld:
            self.missing.append(f"{path}: {uri} is withheld, because it holds what looks like a secret")
            self.left_out.add(uri)
            self._held.add(uri)
            return False
        if uri in self._lost:
            self.missing.append(f"{path}: {uri} is not in the artifact store")
            self._held.add(uri)
            return False
        return True

    def _put(self, path: str, content: Content) -> None:
        if path in self._files:
            raise MalformedError(f"two documents for {path}", code="unsafe_name")
        self._files[path] = content
