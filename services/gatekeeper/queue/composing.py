"""Positions in the mirror: each run's change on top of a tree, path by path, with one commit for each run.

The same entries on the same tip give the same commits on every host. So a gatekeeper whose mirror lacks a position makes it
again. Signatures differ each time, so signed commits are an artifact, and that gatekeeper takes them from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gatewright.contracts.queue_receipt import Blob, Change, Tip
from gatewright.errors import GitError, MalformedError
from gatewright.git.changes import TreeChange, TreeListing, parse_objects
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.modes import ABSENT
from gatewright.ledger.store import Ledger
from gatewright.queue.composition import Conflict, compose, folders_of
from gatewright.queue.state import Entry, Position, Queue
from gatewright.queue.witness import parse_commit
from gatewright.rules.landing import commit_message
from gatewright.rules.standing import rests_on_people
from gatewright.run.state import Run
from gatewright.scope import outside as outside_scope
from gatewright.services.gatekeeper.gates.change.packages import order_digest_on
from gatewright.services.gatekeeper.gates.change.rebuild_trees import bring_candidate_of
from gatewright.services.gatekeeper.gates.context import Artifacts


@dataclass(frozen=True, slots=True)
class ComposedPosition:
    """A position as it lies in the mirror: its tree, and one commit for each run, in order.

    ``signed``: URI of the bytes of signed commits.
    """

    tree: str
    commits: tuple[str, ...]
    signed: str = ""


@dataclass(frozen=True, slots=True)
class NotComposed:
    """The first run that does not fit.

    ``paths``: where it conflicts, what it changes outside its scope, or whose packages are others.
    """

    run_id: str
    code: Literal["conflict_with_ahead", "scope_after_merge", "approval_void"]
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Composer:
    """Composes positions in the mirrors of this host."""

    ledger: Ledger
    mirrors: Mirrors
    artifacts: Artifacts

    async def mirror_at(self, repository: str, base: str) -> Mirror:
        """Return the mirror of a repository, with the commit ``base``. Raises GitError."""
        mirror = await self.mirrors.open(repository)
        await mirror.ensure(base)
        return mirror

    async def run_of(self, run_id: str) -> Run:
        """Return a run of the queue.

        Raises:
            MalformedError: it is unknown, or was never queued (``run_unknown``).
        """
        run = (await self.ledger.get(run_id)).run
        if run is None or run.contract is None or run.candidate is None or run.queued is None:
            raise MalformedError(f"{run_id} is in a merge queue and was never queued", code="run_unknown")
        return run

    async def changes_of(self, run: Run) -> tuple[Change, ...]:
        """Return the change of a run by path.

        Raises:
            GitError: the mirror cannot be read.
            MalformedError: a path is not UTF-8 (``bad_path``).
        """
        mirror = await self.mirror_at(run.accepted.repository_url, run.accepted.baseline_commit)
        await bring_candidate_of(run, mirror, self.artifacts)
        tree = run.candidate.tree if run.candidate is not None else run.accepted.baseline_tree
        return tuple(_queue_change(each) for each in await mirror.changes(run.accepted.baseline_tree, tree))

    async def queued_before(self, run: Run, limit: int) -> int:
        """Return how often the change was queued in the runs that ``run`` repeats; at most ``limit`` of them are read."""
        count = 0
        for _ in range(limit):
            earlier = run.contract.again if run.contract is not None else None
            found = (await self.ledger.get(earlier)).run if earlier is not None else None
            if found is None or found.publisher != run.publisher:
                break
            count += found.queued is not None
            run = found
        return count

    async def compose(
        self, repository: str, onto: Tip, entries: Sequence[Entry], *, sign: bool = False
    ) -> ComposedPosition | NotComposed:
        """Put the changes of ``entries`` on top of a tip that is in the mirror, one commit each.

        ``sign``: sign the commits where the operator's policy has a key for the repository, and store them.

        Raises:
            GitError: the mirror cannot be read or written, or a commit cannot be signed (``commit_signing_unavailable``).
            MalformedError: a run of the queue cannot be read.
            BusError: the artifact store does not answer.
        """
        mirror = await self.mirrors.open(repository)
        steps = await self._steps(mirror, onto.tree, entries)
        if isinstance(steps, NotComposed):
            return steps
        parent, commits = onto.commit, []
        for run, tree in steps:
            parent = await _commit(mirror, run, tree, parent, sign=sign)
            commits.append(parent)
        signed = await self._store(mirror, commits) if sign and await mirror.signs() else ""
        return ComposedPosition(steps[-1][1] if steps else onto.tree, tuple(commits), signed)

    async def _steps(self, mirror: Mirror, tree: str, entries: Sequence[Entry]) -> list[tuple[Run, str]] | NotComposed:
        """Return each run with the tree after its change."""
        steps = []
        for entry in entries:
            run = await self.run_of(entry.run_id)
            await mirror.ensure(run.accepted.baseline_commit)
            await bring_candidate_of(run, mirror, self.artifacts)
            composed = compose(_current(await mirror.listing(tree), entry.changes), entry.changes)
            if isinstance(composed, Conflict):
                return NotComposed(entry.run_id, "conflict_with_ahead", composed.paths)
            if not composed.unchanged and rests_on_people(run):
                return NotComposed(entry.run_id, "approval_void")
            before, tree = tree, await mirror.with_objects(tree, _tree_changes(entry.changes, composed.writes))
            if foreign := _foreign_paths(run, entry, await mirror.changes(before, tree)):
                return NotComposed(entry.run_id, "scope_after_merge", foreign)
            if other := await _other_packages(mirror, tree, run):
                return NotComposed(entry.run_id, "approval_void", other)
            steps.append((run, tree))
        return steps

    async def _store(self, mirror: Mirror, commits: Sequence[str]) -> str:
        """Store the bytes of commits, in the form of ``git cat-file --batch``, and return their URI."""
        raw = await mirror.raw_objects(commits, "commit")
        return await self.artifacts.put_artifact(
            b"".join(b"%s commit %d\n%s\n" % (c.encode(), len(raw[c]), raw[c]) for c in commits)
        )

    async def bring(self, queue: Queue, tree: str) -> Mirror:
        """Return the mirror with the base and every position up to the one of ``tree``, made again where it lacks one.

        Raises:
            GitError: the mirror cannot be read, or a position differs (``tree_differs``).
            MalformedError: a run of the queue, or a stored commit, cannot be read.
            ArtifactError: the stored commits cannot be read.
            BusError: the artifact store does not answer.
        """
        mirror = await self.mirror_at(queue.repository, queue.base.commit)
        onto = queue.base
        for position in queue.line:
            if onto.tree == tree or not position.tree:
                break
            if not await _has(mirror, position.commits[-1]):
                entries = [queue.entries[run_id].entry for run_id in position.runs]
                if position.signed:
                    made = await self._restore(mirror, onto, entries, position)
                else:
                    made = await self.compose(queue.repository, onto, entries)
                if made != ComposedPosition(position.tree, position.commits, position.signed):
                    raise GitError(f"position {position.number} of {queue.branch} comes out differently", code="tree_differs")
            onto = Tip(commit=position.commits[-1], tree=position.tree)
        return mirror

    async def _restore(
        self, mirror: Mirror, onto: Tip, entries: Sequence[Entry], position: Position
    ) -> ComposedPosition | NotComposed | None:
        """Store the signed commits of another gatekeeper in the mirror; None if they are not what the entries give.

        Tree and parent of each are computed here, and its id is the hash of its bytes.
        """
        steps = await self._steps(mirror, onto.tree, entries)
        if isinstance(steps, NotComposed):
            return steps
        raw = dict(parse_objects(await self.artifacts.get_artifact(position.signed), "commit"))
        parent = onto.commit
        for (_, tree), commit in zip(steps, position.commits, strict=True):
            fields = parse_commit(raw.get(commit, b""))
            if (fields.tree, fields.parents) != (tree, (parent,)):
                return None
            await mirror.put_commit(raw[commit], commit)
            parent = commit
        return ComposedPosition(steps[-1][1], position.commits, position.signed)


async def _has(mirror: Mirror, commit: str) -> bool:
    try:
        await mirror.tree_of(commit)
    except GitError as error:
        if error.reason == "object_missing":
            return False
        raise
    return True


async def _commit(mirror: Mirror, run: Run, tree: str, parent: str, *, sign: bool) -> str:
    if run.contract is None or run.queued is None:
        raise MalformedError(f"{run.run_id} was never queued", code="run_unknown")
    return await mirror.commit_tree(
        tree,
        parent=parent,
        message=commit_message(run, run.contract),
        when=datetime.fromisoformat(run.queued.at),
        author=run.contract.author,
        signed=sign,
    )


async def _other_packages(mirror: Mirror, tree: str, run: Run) -> tuple[str, ...]:
    """Return the changed files whose packages people approved, if those of ``tree`` are others."""
    order = run.changed_order
    if order is None or run.contract is None or await order_digest_on(mirror, tree, run.contract) == order.sha256:
        return ()
    return order.files


def _foreign_paths(run: Run, entry: Entry, changes: Iterable[TreeChange]) -> tuple[str, ...]:
    """Return the paths that a commit changes outside its entry, or outside the contract of its run.

    Composition permits none. This is the last check before a test, by git instead of by the composition.
    """
    own = {change.path.encode() for change in entry.changes}
    allowed = run.contract.allowed_paths if run.contract is not None else ()
    paths = [change.path for change in changes]
    outside = {*outside_scope(allowed, paths), *(path for path in paths if path not in own)}
    return tuple(path.decode("utf-8", "backslashreplace") for path in sorted(outside))


def _queue_change(change: TreeChange) -> Change:
    try:
        path = change.path.decode()
    except UnicodeDecodeError:
        raise MalformedError(f"{change.path!r} is no UTF-8, which a merge queue needs", code="bad_path") from None
    return Change(path=path, old=_blob(change.old_mode, change.old_id), new=_blob(change.new_mode, change.new_id))


def _blob(mode: str, object_id: str) -> Blob | None:
    return None if mode == ABSENT else Blob(mode=mode, object_id=object_id)


def _tree_changes(changes: Iterable[Change], writes: Mapping[str, Blob | None]) -> list[TreeChange]:
    """Return the changes that the composition writes, as differences of trees."""
    found = []
    for change in changes:
        if change.path not in writes:
            continue
        old, new = change.old, writes[change.path]
        absent = "0" * len((old or new or Blob(mode=ABSENT, object_id="")).object_id)
        found.append(
            TreeChange(
                path=change.path.encode(),
                old_mode=old.mode if old is not None else ABSENT,
                new_mode=new.mode if new is not None else ABSENT,
                old_id=old.object_id if old is not None else absent,
                new_id=new.object_id if new is not None else absent,
                status="D" if new is None else "A" if old is None else "M",
            )
        )
    return found


def _current(listing: TreeListing, changes: Iterable[Change]) -> dict[str, Blob | None]:
    """Return what a tree has at, above and below the paths of a change, as ``compose`` reads it."""
    found: dict[str, Blob | None] = {}
    for change in changes:
        for path in (change.path, *folders_of(change.path)):
            entry = listing.by_name.get(path)
            if entry is not None:
                found[path] = Blob(mode=entry.mode, object_id=entry.object_id)
        if change.path in found or change.new is None:
            continue
        below = f"{change.path}/".encode()
        for entry in listing.entries[bisect_left(listing.entries, (below,)) :]:
            if not entry.path.startswith(below):
                break
            found[entry.path.decode("utf-8", "surrogateescape")] = Blob(mode=entry.mode, object_id=entry.object_id)
    return found
