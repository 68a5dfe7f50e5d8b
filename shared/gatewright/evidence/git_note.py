"""A bundle's signed statements as a git note on the commit that landed: a clone of the repository can have them too.

A note is an in-toto attestation bundle: one DSSE envelope a line. It is made in a mirror of our own and pushed by
compare-and-swap; no file of a work tree is touched, and the commit stays what it is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gatewright.errors import GitError, MalformedError
from gatewright.evidence import layout
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.mirror import Mirrors

NOTES = "refs/notes/gatewright"
#: Times that another process may have added a note first.
_TRIES = 5


def note_of(bundle: Path) -> bytes:
    """The note of a bundle: its envelopes as they are. Raises MalformedError (``not_signed``)."""
    try:
        envelopes = [(bundle / name).read_bytes() for name in layout.ENVELOPES]
    except OSError as error:
        raise MalformedError(f"{error.filename}: {error.strerror}", code="not_signed") from error
    return b"".join(envelope + b"\n" for envelope in envelopes)


async def attach_note(url: str, commit: str, note: bytes, access: RepositoryAccess = NO_ACCESS) -> bool:
    """Put ``note`` on ``commit`` in the repository at ``url``, instead of another one; False when it is there already.

    Raises GitError (``ref_not_found``: the repository has no such commit; ``landing_conflict``: others were quicker again and
    again), MalformedError for an address that may not be used.
    """
    with tempfile.TemporaryDirectory(prefix="gatewright-note-") as scratch:
        mirror = await Mirrors(Path(scratch), access=access).open(url)
        await mirror.ensure(commit)
        for left in reversed(range(_TRIES)):
            before = await mirror.fetch_notes(NOTES)
            if await mirror.note(NOTES, commit) == note:
                return False
            after = await mirror.put_note(NOTES, commit, note)
            try:
                await mirror.push(after, NOTES, expected=before)
            except GitError as error:
                if error.reason != "landing_conflict" or not left:
                    raise
            else:
                break
    return True
