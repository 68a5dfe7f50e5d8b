"""Git notes of a repository: data attached to a commit outside its history. Every method blocks its thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.refs import check_object_id, is_object_id

#: Largest list of all notes in bytes; about a million notes.
_LIST_LIMIT = 128 << 20
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

    def list_blobs(self) -> Mapping[str, tuple[str, ...]]:
        """Return the blobs of all notes by commit, from one process. A damaged tree of notes may hold several for a commit.

        Raises:
            GitError: there is no such ref (``notes_missing``), or it is no commit (``notes_unreadable``).
        """
        resolved = self._git.execute("rev-parse", "--verify", "--quiet", f"{self._ref}^{{commit}}", ok=(0, 1, 128))
        commit = resolved.decode("ascii", "replace").strip()
        if not is_object_id(commit):
            self._refuse_ref()
        listed = self._git.execute("ls-tree", "-r", "-z", "--full-tree", commit, limit=_LIST_LIMIT)
        blobs: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
        for entry in listed.decode("utf-8", "replace").split("\0"):
            facts, _, path = entry.partition("\t")
            # git spreads many notes over folders that are named after the beginnings of the ids.
            if is_object_id(noted := path.replace("/", "")) and " blob " in facts:
                blobs[noted] += (facts.rpartition(" ")[2],)
        return blobs

    def _refuse_ref(self) -> None:
        if self._git.execute("for-each-ref", "--format=%(refname)", self._ref).decode("utf-8", "replace").strip() == self._ref:
            raise GitError(f"{self._ref} is no commit that can be read: fetch it again", code="notes_unreadable")
        fetch = f"git fetch origin {self._ref}:{self._ref}"
        raise GitError(f"the repository has no {self._ref}: run `{fetch}`", code="notes_missing")
