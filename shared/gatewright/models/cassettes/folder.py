"""A folder of cassettes: each task records one of its own; what plays has the calls of all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from gatewright.errors import MalformedError
from gatewright.host_errors import host_errors
from gatewright.models.cassettes.cassette import LARGEST, Cassette
from gatewright.secrets import SecretScanner

Mode = Literal["record", "play"]
SUFFIX = ".cassette.jsonl"


class CassetteFolder:
    """For one process of a role. ``mode`` says which of the two it is for; nothing is recorded while it plays."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self._path = path
        self._mode = mode
        self._playing: Cassette | None = None

    @property
    def plays(self) -> bool:
        """Whether calls are played: then no key is needed."""
        return self._mode == "play"

    def cassette(self) -> Cassette:
        """The cassette for a gateway: a new one to record; or, to play, the one that all tasks of this process share.

        Raises MalformedError (``cassette_invalid``) for a folder without cassettes, or with a damaged one.
        """
        if not self.plays:
            return Cassette()
        if self._playing is None:
            self._playing = read_all(self._path)
        return self._playing

    def keep(self, cassette: Cassette, name: str, scanner: SecretScanner) -> Path | None:
        """Write what was recorded under ``name`` (a task's delivery), without secrets. None when there is nothing to keep.

        Runs long: use a thread. Raises HostError. A file of that name is replaced in one step.
        """
        if self.plays or not cassette.recorded:
            return None
        plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in name)[:150]
        path = self._path / f"{plain}{SUFFIX}"
        part = path.with_suffix(f".{os.getpid()}.part")
        with host_errors():
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(cassette.as_jsonl(scanner))
            part.replace(path)
        return path


def read_all(folder: Path) -> Cassette:
    """A cassette that plays the calls of every cassette in ``folder``, in the order of their names.

    Raises MalformedError (``cassette_invalid``).
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
        size = sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise MalformedError(f"{folder} cannot be read: {error.strerror}", code="cassette_invalid") from error
    if not paths:
        raise MalformedError(f"{folder} holds no cassette (*{SUFFIX})", code="cassette_invalid")
    if size > LARGEST:
        raise MalformedError(f"{folder} holds more than {LARGEST} bytes of cassettes", code="cassette_invalid")
    calls = [call for path in paths for call in Cassette.read_file(path).played]
    return Cassette(tuple(calls))
