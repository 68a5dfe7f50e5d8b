"""A bundle's signed statements as a git note on the landed commit, so that clones of the repository can have them too.

A note is an in-toto attestation bundle: one DSSE envelope per line. It is created in a private mirror and pushed by
compare-and-swap. No file of a work tree is touched, and the commit does not change.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gatewright.errors import GitError, MalformedError
from gatewright.evidence import layout
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.mirror import Mirrors

NOTES = "refs/notes/gatewright"
#: Attempts when other processes add notes at the same time.
_TRIES = 5


def note_of(bundle: Path) -> bytes:
    """Return the note of a bundle: its envelopes, unchanged.

    Raises:
        MalformedError: the bundle is not signed (``not_signed``).
    """
    try:
        envelopes = [(bundle / name).read_bytes() for name in layout.ENVELOPES]
    except OSError as error:
        raise MalformedError(f"{error.filename}: {error.strerror}", code="not_signed") from error
    return b"".join(envelope + b"\n" for envelope in envelopes)


async def attach_note(url: str, commit: str, note: bytes, access: RepositoryAccess = NO_ACCESS) -> bool:
    """Set ``note`` on ``commit`` in the repository at ``url``, replacing another one.

    Returns:
        False when the commit has this note already.

    Raises:
        GitError: the repository has no such commit (``ref_not_found``), or other processes won every attempt
            (``landing_conflict``).
        MalformedError: the URL must not be used.
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
