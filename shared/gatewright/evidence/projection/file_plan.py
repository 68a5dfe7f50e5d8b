"""A list of files in the making: paths, where their bytes come from, and what could not be had. Reads and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.evidence import layout

#: The bytes of a file, or the URIs of the artifacts whose bytes, one after another, are the file.
Content = bytes | tuple[str, ...]


class FilePlan:
    """The files so far, and what is missing among them: ``path: why``.

    ``lost`` are URIs that the store could not give, ``withheld`` those that must not be given; ``left_out`` are the latter, as
    far as a file would have needed them.
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
        """Whether some file already is this artifact, or would be, had it not been lost."""
        return uri in self._held

    def bytes(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def text(self, path: str, line: str) -> None:
        self._put(path, f"{line}\n".encode())

    def document(self, path: str, document: Document) -> None:
        self._put(path, codec.encode(document))

    def artifact(self, path: str, uri: str) -> None:
        """A file that is one artifact; an empty URI means that there was nothing to store."""
        if not uri:
            self._put(path, b"")
        elif self._usable(path, uri):
            self._put(path, (uri,))
            self._held.add(uri)

    def joined(self, path: str, uris: Iterable[str]) -> None:
        """A file that is several artifacts, one after another."""
        self._put(path, tuple(uri for uri in uris if uri and self._usable(path, uri)) or b"")

    def finished(self) -> dict[str, Content]:
        """All files, sorted. Raises MalformedError when one would be the folder of another."""
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
