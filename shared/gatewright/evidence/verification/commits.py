"""Verification of commits by the notes of their repository; git only reads, and nothing is fetched.

A commit is verified by the note on it, or else by any note whose statements name its tree: a squash or a rebase makes another
commit and keeps the tree. The number of git processes does not grow with the number of commits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gatewright.errors import GitError, MalformedError, VerificationError
from gatewright.evidence.git_note import NOTES
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.verification.note import MAX_NOTE_BYTES, CommitProof, claimed_tree, open_note
from gatewright.git.changes import parse_objects, parse_sizes
from gatewright.git.command import GitCommand
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.notes import Notes
from gatewright.git.refs import object_id

#: ``verified``: a trusted key signed that this commit or its tree passed. ``failed``: there is evidence, and it is wrong.
#: ``not_found``: no evidence names it. ``unknown``: the repository could not answer.
CommitOutcome = Literal["verified", "failed", "not_found", "unknown"]
#: Several commits together get the first of these outcomes that occurs.
_WORST_FIRST: tuple[CommitOutcome, ...] = ("failed", "unknown", "not_found", "verified")
#: Bytes of notes that are in memory at a time, of all commits, and of the list of a range.
_NOTES_AT_ONCE = 64 << 20
_COMMITS_LIMIT = 512 << 20
_RANGE_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """The result for one commit. ``found_by`` is empty without evidence, ``proof`` is None unless it is verified."""

    commit: str
    outcome: CommitOutcome
    found_by: Literal["note", "tree", ""]
    code: str
    message: str
    proof: CommitProof | None


@dataclass(frozen=True)
class CommitsVerification:
    """The results of one call, oldest commit first; ``code`` and ``message`` are set when it had no answer as a whole."""

    verdicts: tuple[CommitVerdict, ...]
    code: str = ""
    message: str = ""

    @cached_property
    def counts(self) -> Mapping[CommitOutcome, int]:
        """Return the number of commits of each outcome that occurs."""
        return Counter(verdict.outcome for verdict in self.verdicts)

    @property
    def outcome(self) -> CommitOutcome:
        """Return the outcome of all commits together; an empty range is ``not_found``, since nothing was verified."""
        if self.code:
            return "unknown"
        return next((outcome for outcome in _WORST_FIRST if self.counts.get(outcome)), "not_found")


def commits_of_range(checkout: UserCheckout, span: str) -> tuple[str, ...]:
    """Return the ids of the commits of ``A..B``, oldest first: what ``B`` reaches and ``A`` does not.

    Raises:
        MalformedError: it has another form (``bad_ref``).
        GitError: a commit is missing (``ref_not_found``), or the clone is shallow (``history_shallow``).
    """
    ends = span.split("..")
    if len(ends) != 2 or not all(ends) or ends[1].startswith("."):
        raise MalformedError(f"not a range A..B: {span[:100]!a}", code="bad_ref")
    base, head = (checkout.resolve(end) for end in ends)
    git = checkout.objects
    # A commit at the boundary looks as if it had no parents, so commits of the range would be left out.
    if git.execute("rev-parse", "--is-shallow-repository").strip() != b"false":
        words = "the clone is shallow, so commits of the range may be missing: run `git fetch --unshallow`"
        raise GitError(words, code="history_shallow")
    # A commit graph is a cache of parents that no object id covers.
    listed = git.execute("rev-list", "--reverse", head, f"^{base}", limit=_RANGE_LIMIT, settings={"core.commitGraph": "false"})
    return tuple(listed.decode("ascii", "replace").split())


class CommitVerifier:
    """Verifies commits of one repository against ``trusted`` keys. It reads each note once, and opens it at most once.

    ``landed_in`` is the address of the repository that a run must have used; None accepts any.
    """

    def __init__(self, git: GitCommand, trusted: Sequence[PublicKey], landed_in: str | None = None) -> None:
        self._git = git
        self._trusted = trusted
        self._landed_in = landed_in
        self._opened: dict[str, CommitProof | MalformedError | VerificationError] = {}

    def verify(self, commits: Sequence[str]) -> CommitsVerification:
        """Verify commits, given by their full ids. Raises GitError when the repository cannot answer.

        1. Commits: each one has the bytes that its id names.
        2. By note: the statements name this commit and its tree.
        3. By tree, without a note: the statements of any note name this tree. One valid note is enough.
        """
        trees = self._read_trees(commits)  # 1
        listed = Notes(self._git, NOTES).list_blobs()
        without = {trees[commit] for commit in commits if commit not in listed}
        attached = {blob for commit in commits for blob in listed.get(commit, ())}
        every = attached | ({blob for blobs in listed.values() for blob in blobs} if without else set())
        by_tree: defaultdict[str, list[str]] = defaultdict(list)
        for blob, note in self._read_notes(every):
            tree = claimed_tree(note) if without and note is not None else ""
            if tree in without:
                by_tree[tree].append(blob)
            if blob in attached or tree in without:
                self._opened[blob] = self._open_or_fault(note)
        verdicts = (
            self._judge_note(commit, trees[commit], listed[commit])  # 2
            if commit in listed
            else self._judge_tree(commit, by_tree.get(trees[commit], ()))  # 3
            for commit in commits
        )
        return CommitsVerification(tuple(verdicts))

    def _judge_note(self, commit: str, tree: str, blobs: Sequence[str]) -> CommitVerdict:
        if len(blobs) != 1:
            return CommitVerdict(commit, "failed", "note", "note_malformed", f"the commit has {len(blobs)} notes", None)
        proof = self._opened[blobs[0]]
        if not isinstance(proof, CommitProof):
            return CommitVerdict(commit, "failed", "note", proof.reason, proof.message, None)
        if proof.commit != commit:
            words = f"its note is about the commit {proof.commit}"
            return CommitVerdict(commit, "failed", "note", "note_of_other_commit", words, None)
        if proof.tree != tree:
            words = f"its note is about the tree {proof.tree}, and the commit has {tree}"
            return CommitVerdict(commit, "failed", "note", "note_of_other_commit", words, None)
        return CommitVerdict(commit, "verified", "note", "", "", proof)

    def _judge_tree(self, commit: str, blobs: Sequence[str]) -> CommitVerdict:
        opened = [self._opened[blob] for blob in blobs]
        for proof in opened:
            if isinstance(proof, CommitProof):
                return CommitVerdict(commit, "verified", "tree", "", "", proof)
        for fault in opened:
            if not isinstance(fault, CommitProof):
                return CommitVerdict(commit, "failed", "tree", fault.reason, fault.message, None)
        words = "no note is on this commit, and none names its tree"
        return CommitVerdict(commit, "not_found", "", "commit_unattested", words, None)

    def _open_or_fault(self, note: bytes | None) -> CommitProof | MalformedError | VerificationError:
        if note is None:
            return MalformedError(f"the note is longer than {MAX_NOTE_BYTES} bytes", code="note_malformed")
        try:
            proof = open_note(note, self._trusted)
        except (MalformedError, VerificationError) as error:
            return error
        if self._landed_in is not None and proof.repository != self._landed_in:
            words = f"the run landed in {proof.repository[:200]!a}, not in {self._landed_in[:200]!a}"
            return VerificationError(words, code="note_of_other_repository")
        return proof

    def _read_trees(self, commits: Sequence[str]) -> dict[str, str]:
        """Return the tree of each commit, from bytes that hash to its id."""
        if not commits:
            return {}
        asked = "".join(f"{commit}\n" for commit in commits).encode()
        output = self._git.execute("cat-file", "--batch", "--buffer", stdin=asked, limit=_COMMITS_LIMIT)
        return {commit: _tree_of(commit, content) for commit, content in parse_objects(output, "commit")}

    def _read_notes(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each note once; None in place of one that is too large to be a note."""
        wanted = sorted(set(blobs))
        if not wanted:
            return
        asked = "".join(f"{blob}\n" for blob in wanted).encode()
        batch, held = list[str](), 0
        for blob, size in parse_sizes(self._git.execute("cat-file", "--batch-check", "--buffer", stdin=asked)):
            if size > MAX_NOTE_BYTES:
                yield blob, None
                continue
            if held + size > _NOTES_AT_ONCE:
                yield from self._read_batch(batch)
                batch, held = [], 0
            batch.append(blob)
            held += size
        yield from self._read_batch(batch)

    def _read_batch(self, blobs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        limit = 2 * _NOTES_AT_ONCE
        yield from parse_objects(self._git.execute("cat-file", "--batch", "--buffer", stdin=asked, limit=limit), "blob")


def _tree_of(commit: str, content: bytes) -> str:
    """Return the tree of a commit. Raises GitError (``object_missing``) where the bytes are not those of its id."""
    if object_id("commit", content, len(commit)) != commit:
        raise GitError(f"the object {commit} does not have the bytes that its id names", code="object_missing")
    return content[5 : 5 + len(commit)].decode("ascii", "replace")
