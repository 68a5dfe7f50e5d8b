"""The environments that commands may see: those that an operator listed, and those that a stack's owner offers at run time.

The owner's command writes the path into a private file of the home folder, and the roles read it when a contract names an
unlisted environment. A file that others could have written offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, overload

import msgspec

from gatewright.errors import ConfigurationError, MalformedError
from gatewright.file_locks import lock_file
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.private_files import read_private, write_private

#: In the home folder of a stack.
OFFERS_FILE: Final = "offered-environments.json"
#: Offers of one stack; each is looked at for every contract that names an environment.
MOST_OFFERS: Final = 256
_PATIENCE: Final = 10.0


class _Offers(msgspec.Struct, frozen=True):
    environments: tuple[str, ...] = ()


class ListedEnvironments(Sequence[Path]):
    """``listed`` first, then the current content of ``offers``; without a file only the listed ones."""

    def __init__(self, listed: Sequence[Path], offers: Path | None = None) -> None:
        self._listed = tuple(listed)
        self._offers = offers

    def _now(self) -> tuple[Path, ...]:
        return (*self._listed, *(read_offers(self._offers) if self._offers is not None else ()))

    def __iter__(self) -> Iterator[Path]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | Sequence[Path]:
        return self._now()[index]


def read_offers(path: Path) -> tuple[Path, ...]:
    """The absolute paths that the file offers; none where it is not there, or could have been written by others."""
    try:
        content = read_private(path)
        found = read_json(content, _Offers).environments if content is not None else ()
    except (ConfigurationError, UnreadableDocumentError):
        return ()
    paths = (Path(each) for each in found[:MOST_OFFERS] if "\0" not in each)
    return tuple(path for path in paths if path.is_absolute())


def add_offers(path: Path, prefixes: Sequence[Path]) -> None:
    """Add ``prefixes`` to the offers. Safe for concurrent commands.

    Raises ConfigurationError if the file is not private, MalformedError (``invalid_input``) for more than ``MOST_OFFERS``.
    """
    held = lock_file(path.with_suffix(".lock"), seconds=_PATIENCE)
    try:
        read_private(path)  # what others could have written is for its owner to look at
        offered = tuple(dict.fromkeys((*read_offers(path), *prefixes)))
        if len(offered) > MOST_OFFERS:
            words = f"the running stack offers {MOST_OFFERS} environments already: `gatewright down` ends it and forgets them"
            raise MalformedError(words, code="invalid_input")
        write_private(path, msgspec.json.encode(_Offers(tuple(map(str, offered)))))
    finally:
        os.close(held)


def clear_offers(path: Path) -> None:
    """Forget all of them: offers end with the stack that they were made to."""
    path.unlink(missing_ok=True)
