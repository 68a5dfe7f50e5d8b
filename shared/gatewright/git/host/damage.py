"""What git says when objects of a repository are damaged or lacking, as errors that people can act on."""

from __future__ import annotations

import re
from typing import Final

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError

DAMAGED: Final = "repository_damaged"
PARTIAL: Final = "repository_partial"
#: git's words, in the locale C that each of our commands has.
_DAMAGES: Final = (
    "is corrupt",
    "possible repository corruption",
    "inflate: data stream error",
    "unable to unpack",
    "unable to read",
    "bad ref ",
    "bad object",
    "bad tree object",
    "missing blob object",
    "missing tree object",
    "missing commit object",
)
#: What git says of an object that a partial clone has left with its remote.
_PROMISED: Final = "promisor"
_OBJECT = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")  # noqa: TID251 - linear: of a fixed length


def is_partial(error: CommandFailedError) -> bool:
    """Whether git says that a partial clone lacks an object."""
    return _PROMISED in error.said


def damage(error: CommandFailedError, repository: str) -> GitError | None:
    """The error to raise where ``error`` means that ``repository`` lacks an object; None where it means something else."""
    said = error.said
    found = _OBJECT.search(said)
    what = f"the object {found.group()}" if found is not None else "an object"
    if is_partial(error):
        return GitError(f"{repository} is a partial clone and lacks {what}", code=PARTIAL)
    if any(words in said for words in _DAMAGES):
        return GitError(f"{repository} is damaged: {what} is missing or cannot be read", code=DAMAGED)
    return None
