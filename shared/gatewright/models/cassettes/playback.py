"""The cassettes of a folder, or of a run's bundle, by task. Each task replays only its own.

The folder is untrusted: only plain files are read, no links are followed, and sizes and numbers are bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.models.cassettes.cassette import FORMAT, LARGEST, LARGEST_HEAD, Cassette, CassetteHead
from gatewright.models.records import sha256

#: The suffix of a cassette's name.
SUFFIX: Final = ".cassette.jsonl"
#: Their folders below a bundle; in a folder of cassettes at the top.
_PLACES: Final = ("", "cassettes", "consultations/*", "interrupted/*/*")
_MOST_FILES: Final = 2000
_READ_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def task_place(run_id: str, task_id: str) -> str:
    """Return the name of a task that is the same in every run of an order: its id without the run's."""
    return task_id.removeprefix(f"{run_id}.")


class Playback:
    """The recordings that the gateways of a process replay. Nothing is read before the first task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, Path] | None = None

    def cassette(self, task: str) -> Cassette:
        """Return the cassette of ``task``, rewound; an empty one if nothing was recorded.

        Raises MalformedError (``cassette_invalid``) for a folder without cassettes, or with an invalid one.
        """
        if self._found is None:
            self._found = found_cassettes(self._folder)
        path = self._found.get(task)
        if path is None:
            return Cassette((), CassetteHead(format=FORMAT, sha256=sha256(b""), task=task))
        return Cassette.read(_read_plain_file(path, LARGEST))


def found_cassettes(folder: Path) -> dict[str, Path]:
    """The files of cassettes in ``folder`` by the task of each. Raises MalformedError (``cassette_invalid``).

    An incomplete one counts where there is no other of its task, and of several the last.
    """
    found: dict[str, Path] = {}
    cut_off: dict[str, Path] = {}
    for path in _cassette_files(folder):
        head = _head(path)
        if head.task in found and not head.incomplete:
            raise _invalid(f"{path} and {found[head.task]} are both of the task {head.task!r}")
        (cut_off if head.incomplete else found)[head.task] = path
        if len(found) + len(cut_off) > _MOST_FILES:
            raise _invalid(f"{folder} holds more than {_MOST_FILES} cassettes")
    found = {**cut_off, **found}
    if not found:
        raise _invalid(f"{folder} holds no cassette (*{SUFFIX})")
    return found


def _cassette_files(folder: Path) -> Iterator[Path]:
    try:
        for place in _PLACES:
            for below in sorted(folder.glob(place)) if place else [folder]:
                if below.is_dir() and not (place and below.is_symlink()):
                    yield from sorted(path for path in below.iterdir() if path.name.endswith(SUFFIX))
    except OSError as error:
        raise _invalid(f"{folder} cannot be read: {error.strerror}") from error


def _head(path: Path) -> CassetteHead:
    first = _read_plain_file(path, LARGEST, LARGEST_HEAD).partition(b"\n")[0]
    try:
        return read_json(first, CassetteHead)
    except UnreadableDocumentError as error:
        raise _invalid(f"{path} is no cassette: {error}") from None


def _read_plain_file(path: Path, largest: int, wanted: int | None = None) -> bytes:
    """The first ``wanted`` bytes of a plain file of at most ``largest`` bytes, or all."""
    try:
        descriptor = os.open(path, _READ_ONLY)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise _invalid(f"{path} is no plain file")
            if facts.st_size > largest:
                raise _invalid(f"{path} has {facts.st_size} bytes; a cassette has at most {largest}")
            return file.read(largest + 1 if wanted is None else wanted)
    except OSError as error:
        raise _invalid(f"{path} cannot be read: {error.strerror}") from error


def _invalid(words: str) -> MalformedError:
    return MalformedError(words, code="cassette_invalid")
