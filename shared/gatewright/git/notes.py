"""Git notes in a repository of our own: data attached to a commit outside its history. Every method blocks its thread."""

from __future__ import annotations

from gatewright.git.command import GitCommand
from gatewright.git.refs import check_object_id

_AUTHOR = ("-c", "user.name=Gatewright", "-c", "user.email=gatewright@localhost")


class Notes:
    """The notes below the ref ``ref`` of the repository of ``git``."""

    def __init__(self, git: GitCommand, ref: str) -> None:
        self._git = git
        self._ref = ref

    def set_to(self, commit: str | None) -> None:
        """Have all notes as they are in their ``commit``; None: there are none."""
        if commit is None:
            self._git.execute("update-ref", "-d", self._ref)
        else:
            self._git.execute("update-ref", self._ref, check_object_id(commit))

    def blob_of(self, commit: str) -> str | None:
        """The id of the blob that is the note on ``commit``; None where there is none."""
        listed = self._git.execute("notes", f"--ref={self._ref}", "list", check_object_id(commit), ok=(0, 1))
        return listed.decode("ascii", "replace").strip() or None

    def put(self, commit: str, note: bytes) -> str:
        """Put ``note`` on ``commit`` instead of another one; the commit of the notes that has it."""
        blob = self._git.execute("hash-object", "-w", "--stdin", stdin=note).decode("ascii", "replace").strip()
        # A blob is attached byte for byte; git would tidy up text, and these bytes may be signed.
        adding = ("notes", f"--ref={self._ref}", "add", "--force", "--reuse-message", blob, check_object_id(commit))
        self._git.execute(*_AUTHOR, *adding)
        return self._git.execute("rev-parse", "--verify", self._ref).decode("ascii", "replace").strip()
