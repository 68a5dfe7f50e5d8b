"""Bare mirrors of repositories: the only place where Gatewright keeps git objects, and the interface to git.

A mirror is per host, written by Gatewright alone, and has no branch of its own: refs below ``refs/gate/keep`` hold the
fetched commits, so that no clean-up drops them. Nothing is ever checked out here.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

from gatewright.contracts.vocabulary import Person
from gatewright.errors import GitError, MalformedError
from gatewright.git import refs
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.access.remote_git import HostCalls
from gatewright.git.attributes.stored_form import Attributes
from gatewright.git.changes import FileChange, Node, TreeChange, TreeEntry, TreeListing, TreeListings
from gatewright.git.command import GitCommand
from gatewright.git.host.identity import PROTOCOLS, mirror_keys
from gatewright.git.host.new_mirror import PRIVATE, make_mirror
from gatewright.git.host.target_rules import TargetRules
from gatewright.git.kept.readers import KeptReaders
from gatewright.git.maintenance import hold_lock
from gatewright.git.mirror_room import ORIGIN, MirrorRoom, nothing_needed, touch, use
from gatewright.git.modes import NO_CONTENT
from gatewright.git.names import NameFault, TreeLimits, surely_readable, surely_within_limits
from gatewright.git.notes import Notes
from gatewright.git.objects import BLOBS_LIMIT, Objects
from gatewright.git.patches.files import Reading
from gatewright.git.process import in_thread, in_thread_of
from gatewright.git.remote import Remote
from gatewright.outside_calls import OutsideCalls

_REMEMBERED = 4096
#: Seconds for which it is; shorter than the time after which a commit that is not used is let go.
_REMEMBERED_SECONDS = 1800.0
#: Seconds that an unused mirror stays open with its caches.
_RECENT_SECONDS = 600.0
#: Differences between trees are remembered for the gate that looks next: the last pairs, and only small ones.
_REMEMBERED_PAIRS = 32
_REMEMBERED_PATHS = 1000
#: Contents are remembered for the rule that looks next: those of the last call, when they are not too many bytes.
_REMEMBERED_BYTES = 64 << 20
#: Total directory entries in the cache: directories of new paths are read repeatedly.
_REMEMBERED_NODES = 10_000
#: Largest output in bytes about the authors of commits.
_AUTHORS_LIMIT = 16 << 20
_TAGS = "refs/tags/"
#: Files of whole trees that a process remembers: a baseline is listed by every rule of every run that starts from it.
_REMEMBERED_FILES = 250_000


class Tag(NamedTuple):
    """A tag: its name without ``refs/tags/``, its target, and whether it has an object of its own (a message and a date)."""

    name: str
    target: str
    annotated: bool


class Mirrors:
    """All mirrors below ``root``, one per repository. Threads and processes of one host may share a root.

    ``access`` is this process's access to repositories of other hosts, ``protocols`` are those that an address may use;
    ``transfer_seconds`` bounds one fetch or push. ``most`` bounds the size of all mirrors in bytes; ``needed`` returns the
    commits that open runs start from.
    """

    def __init__(
        self,
        root: Path,
        *,
        access: RepositoryAccess = NO_ACCESS,
        protocols: tuple[str, ...] = PROTOCOLS,
        transfer_seconds: float = 900,
        most: int | None = None,
        needed: Callable[[], Collection[str]] = nothing_needed,
    ) -> None:
        self._root = root.absolute()
        self._access = access
        self._protocols = protocols
        self._seconds = transfer_seconds
        self._room = MirrorRoom(self._root, most, needed)
        self._hosts = HostCalls()
        self._kept = KeptReaders()
        self._listings = TreeListings(_REMEMBERED_FILES)
        #: Mirrors in use in this process, and for a while the recently opened ones.
        self._open: WeakValueDictionary[str, Mirror] = WeakValueDictionary()
        self._recent: dict[str, tuple[float, Mirror]] = {}
        self._forgetting: asyncio.AbstractEventLoop | None = None

    async def open(self, url: str) -> Mirror:
        """The mirror of ``url``, made on the first call for that address.

        MalformedError (``bad_url``) for an address that is not allowed; GitError (``repository_unreadable``,
        ``repository_empty``) when a mirror cannot be made.
        """
        source = refs.parse_url(url, self._protocols)
        mirror = self._open.get(url)
        if mirror is None:
            calls = self._hosts.of(source)
            # An existing mirror needs no access to the repository's host, which may hang.
            mirror = await in_thread(self._open_mirror, url, source, calls, make=calls is None)
            mirror = mirror or await in_thread_of(calls, self._open_mirror, url, source, calls, make=True)
            assert mirror is not None  # noqa: S101 - it was made
            mirror = self._open.setdefault(url, mirror)
        self._recent[url] = (time.monotonic(), mirror)
        touch(mirror.path)
        if self._forgetting is not asyncio.get_running_loop():
            self._forget_later()
        return mirror

    def let_go(self) -> None:
        """Close unused mirrors: they may be removed, by this or another process."""
        self._recent = {}

    def _forget_later(self) -> None:
        """Let mirrors go that were opened long ago: none can be removed, here or by another process, before."""
        limit = time.monotonic() - _RECENT_SECONDS
        self._recent = {url: each for url, each in self._recent.items() if each[0] > limit}
        self._forgetting = asyncio.get_running_loop() if self._recent else None
        if self._forgetting is not None:
            self._forgetting.call_later(_RECENT_SECONDS, self._forget_later)

    def _bytes_left(self) -> int | None:
        """Bytes that a fetch may bring. GitError (``mirrors_full``)."""
        try:
            return self._room.left()
        except GitError:
            self.let_go()
            return self._room.left()

    def _open_mirror(self, url: str, source: refs.Source, calls: OutsideCalls | None, *, make: bool) -> Mirror | None:
        """The mirror; None where it would have to be made and is not to be."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = [self._root / f"{key}.git" for key in mirror_keys(source)]
        path = next((path for path in paths if path.is_dir()), paths[0])
        if not make and not path.is_dir():
            return None
        remote = Remote(GitCommand(path, protocols=(source.protocol,)), source, seconds=self._seconds, access=self._access)
        descriptor = use(path)
        try:
            if not path.is_dir():
                make_mirror(path, remote.object_format())
                (path / ORIGIN).write_text(url, "utf-8")
            mirror = Mirror(
                url,
                path,
                remote,
                seconds=self._seconds,
                space=self._bytes_left,
                calls=calls,
                kept=self._kept,
                listings=self._listings,
                open_other=self.open,
            )
        except BaseException:
            os.close(descriptor)
            raise
        weakref.finalize(mirror, os.close, descriptor)
        weakref.finalize(mirror, self._kept.end, path)
        weakref.finalize(mirror, self._listings.forget, str(path))
        return mirror


class Mirror:
    """One bare mirror. ``url`` is the address as given; ``space`` returns the bytes that a fetch may add.

    ``open_other`` opens the mirror of another repository, with the same access; ``permits`` asks the operator's list for it.

    ``calls`` are those to the repository's host; None if the repository is on this host.
    """

    def __init__(
        self,
        url: str,
        path: Path,
        remote: Remote,
        *,
        seconds: float,
        open_other: Callable[[str], Awaitable[Mirror]],
        space: Callable[[], int | None] = lambda: None,
        calls: OutsideCalls | None = None,
        kept: KeptReaders | None = None,
        listings: TreeListings | None = None,
    ) -> None:
        self.url = url
        self.path = path
        self._git = GitCommand(path)
        self._objects = Objects(self._git, path / PRIVATE, kept)
        self._remote = remote
        self.source = remote.source
        self.permits = remote.permits
        self.open_other = open_other
        self._seconds = seconds
        self._room = space
        self._calls = calls
        self._since = time.monotonic()
        self._kept: set[str] = set()
        self._trees: dict[str, str] = {}
        self._changes: dict[tuple[str, str], tuple[TreeChange, ...]] = {}
        self._recent: dict[str, bytes] = {}
        self._listed: dict[str, tuple[Node, ...]] = {}
        self._listings = listings or TreeListings(_REMEMBERED_FILES)

    async def settings(self, object_id: str) -> tuple[tuple[str, str], ...]:
        """Return key and value of each setting in a blob in the form of git's configuration. Raises GitError."""
        output = await self._git.run("config", f"--blob={refs.check_object_id(object_id)}", "--no-includes", "-z", "--list")
        settings = (each.partition("\n") for each in output.decode("utf-8", "surrogateescape").split("\0")[:-1])
        return tuple((key, value) for key, _, value in settings)

    async def resolve(self, ref: str) -> str:
        """Return the full commit id that ``ref`` names in the repository now; fetch the commit into the mirror.

        ``ref`` is a branch, a tag (peeled), ``HEAD``, a full ref name or a full object id. Raises MalformedError
        (``bad_ref``) for anything else and for a name that is a branch and a tag at different commits; GitError
        (``ref_not_found``).
        """
        return await in_thread_of(self._calls, self._resolve, refs.check_ref(ref))

    async def ensure(self, commit: str) -> None:
        """Have ``commit`` (a full id) and all it needs in the mirror. GitError (``ref_not_found``)."""
        if refs.check_object_id(commit) in self._kept and not self._is_stale():
            return
        if self._calls is None or await in_thread(self._recall, commit) != commit:
            await in_thread_of(self._calls, self._ensure, commit)

    async def tree_of(self, commit: str) -> str:
        """The tree id of a commit or tree in the mirror. GitError (``object_missing``)."""
        known = self._trees.get(commit)
        return known if known is not None else await in_thread(self._tree_of, commit)

    async def has_tree(self, tree: str) -> bool:
        """Return whether the tree is in the mirror."""
        try:
            return await self.tree_of(refs.check_object_id(tree)) == tree
        except GitError as error:
            if error.reason == "object_missing":
                return False
            raise

    async def parents(self, commit: str) -> tuple[str, ...]:
        """The full ids of the parents of a commit in the mirror. GitError (``object_missing``)."""
        output = await self._git.run("rev-list", "--parents", "--max-count=1", "--end-of-options", refs.check_object_id(commit))
        return tuple(output.decode("ascii", "replace").split()[1:])

    async def descends(self, commit: str, ancestor: str) -> bool:
        """Return whether ``ancestor`` is ``commit`` or in its history, both in the mirror. Raises GitError
        (``object_missing``)."""
        known, without = refs.check_object_id(ancestor), f"^{refs.check_object_id(commit)}"
        lacking = await self._git.run("rev-list", "--count", "--max-count=1", "--end-of-options", known, without)
        return lacking.strip() == b"0"

    async def merge_bases(self, one: str, other: str) -> tuple[str, ...]:
        """Return the newest commits that two commits of the mirror have in common. Raises GitError (``object_missing``)."""
        commits = (refs.check_object_id(one), refs.check_object_id(other))
        return tuple((await self._git.run("merge-base", "--all", *commits, ok=(0, 1))).decode("ascii", "replace").split())

    async def authors(self, base: str, head: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Return name and address of the author of each commit in ``head`` and not in ``base``, the newest first.

        At most ``limit`` of them. Raises GitError (``object_missing``, ``git_output_too_large``).
        """
        form = ("--no-show-signature", "--no-mailmap", f"--max-count={limit}", "-z", "--format=%an%x00%ae")
        words = ("log", *form, refs.check_object_id(head), f"^{refs.check_object_id(base)}", "--")
        output = await in_thread(lambda: self._git.execute(*words, limit=_AUTHORS_LIMIT))
        fields = output.decode("utf-8", "replace").split("\0")[:-1]
        return tuple(zip(fields[::2], fields[1::2], strict=True))

    async def children(self, commit: str, until: str, limit: int) -> tuple[str, ...]:
        """Return the commits whose parent is ``commit``, among the ``limit`` newest from there to ``until``; both in the
        mirror.

        Raises GitError (``object_missing``).
        """
        base = refs.check_object_id(commit)
        asked = (f"--max-count={limit}", "--end-of-options", refs.check_object_id(until), f"^{base}")
        lines = (await self._git.run("rev-list", "--parents", *asked)).decode("ascii", "replace").splitlines()
        return tuple(child for child, *parents in map(str.split, lines) if base in parents)

    async def commits_on(self, path: bytes, after: str, until: str, limit: int) -> tuple[str, ...]:
        """Return the newest commits in ``until`` and not in ``after`` that changed ``path``. GitError (``object_missing``)."""
        ends = (refs.check_object_id(until), f"^{refs.check_object_id(after)}", "--", os.fsdecode(path))
        output = await self._git.run("rev-list", f"--max-count={limit}", "--end-of-options", *ends)
        return tuple(output.decode("ascii", "replace").split())

    async def message(self, commit: str) -> str:
        """The message of a commit in the mirror; what is not UTF-8 becomes U+FFFD. GitError (``object_missing``)."""
        raw = await self._git.run("cat-file", "commit", refs.check_object_id(commit))
        return raw.partition(b"\n\n")[2].decode("utf-8", "replace")

    async def note(self, ref: str, commit: str) -> bytes | None:
        """The note on ``commit`` below the ref of notes ``ref`` of the mirror; None where there is none."""
        blob = await in_thread(Notes(self._git, ref).blob_of, commit)
        return await self.blob(blob) if blob is not None else None

    async def fetch_notes(self, ref: str) -> str | None:
        """Have the repository's notes below ``ref`` in the mirror as they are now; their commit, None for none."""
        current = await self.current(ref)
        if current is not None:
            await self.ensure(current)
        await in_thread(Notes(self._git, ref).set_to, current)
        return current

    async def put_note(self, ref: str, commit: str, note: bytes) -> str:
        """Put ``note`` on ``commit``, in the mirror; the commit of the notes, for ``push``."""
        return await in_thread(Notes(self._git, ref).put, commit, note)

    async def apply(self, baseline: str, patch: bytes, reading: Reading | None = None) -> str:
        """Return the tree id of the commit ``baseline`` with ``patch``; an empty patch changes nothing. Raises PatchError if
        refused.

        ``reading`` is the result of ``read_patch`` for the patch, if known.
        """
        return self._note_written(await in_thread(lambda: self._objects.apply(self._tree_of(baseline), patch, reading)))

    async def apply_to_tree(self, tree: str, patch: bytes) -> str:
        """The same from any tree, to put disjoint patches together."""
        return self._note_written(await in_thread(self._objects.apply, tree, patch))

    async def changes(self, old: str, new: str) -> tuple[TreeChange, ...]:
        """Return the differences between two commits or trees, by path; a rename is a deletion and an addition."""
        known = self._changes.get((old, new))
        if known is None:
            known = await in_thread(self._objects.changes, old, new)
            if len(known) <= _REMEMBERED_PATHS:
                self._changes = dict([*list(self._changes.items())[-_REMEMBERED_PAIRS:], ((old, new), known)])
        return known

    async def attributes(self, tree: str, paths: Sequence[bytes]) -> Mapping[bytes, Attributes]:
        """Return the attributes of ``paths`` that decide what git stores, by the tree's own files; empty if none applies.

        Raises GitError (``attributes_too_large``, ``git_timeout``).
        """
        return await in_thread(self._objects.attributes, tree, paths)

    async def copies(self, old: str, new: str) -> dict[bytes, bytes]:
        """The files of tree ``new`` that ``old`` lacks and that have just the content of one of its files, with its path."""
        return await in_thread(self._objects.copies, old, new)

    async def diff(self, old: str, new: str) -> bytes:
        """The canonical patch between two commits or trees: the same bytes on every machine, complete, appliable."""
        return await in_thread(self._objects.diff, old, new)

    async def files(self, tree: str, paths: tuple[str, ...] = ()) -> tuple[TreeEntry, ...]:
        """The files of a commit or tree; with ``paths`` those at or below them, taken literally."""
        return await in_thread(self._objects.files, tree, paths) if paths else (await self.listing(tree)).entries

    async def listing(self, tree: str) -> TreeListing:
        """Return all files of a commit or tree."""
        name = await self.tree_of(tree)
        known = self._listings.get(str(self.path), name)
        if known is None:
            known = await self._list(name)
            self._listings.keep(str(self.path), name, known)
        return known

    async def _list(self, tree: str) -> TreeListing:
        """List a tree, derived from a known listing and a known change if possible."""
        for (old, new), changes in reversed(self._changes.items()):
            if self._trees.get(new, new) != tree:
                continue
            if (before := self._listings.get(str(self.path), self._trees.get(old, old))) is not None:
                written = {change.new_id for change in changes if change.new_mode not in NO_CONTENT}
                return before.after(changes, await self.sizes(written))
        return TreeListing(await in_thread(self._objects.files, tree, ()))

    async def blob(self, object_id: str) -> bytes:
        """The content of one blob. GitError (``object_missing``)."""
        return (await self.blobs((object_id,)))[object_id]

    async def blobs(self, object_ids: Iterable[str], limit: int = BLOBS_LIMIT) -> dict[str, bytes]:
        """The contents of several blobs by id. GitError (``object_missing``), OutputTooLargeError beyond ``limit`` bytes."""
        wanted = set(object_ids)
        known = {object_id: self._recent[object_id] for object_id in wanted & self._recent.keys()}
        missing = tuple(wanted - known.keys())
        read = await in_thread(self._objects.blobs, missing, limit) if missing else {}
        if read and sum(map(len, read.values())) <= _REMEMBERED_BYTES:
            self._recent = read
        return known | read

    async def sizes(self, object_ids: Iterable[str]) -> dict[str, int]:
        """The size in bytes of blobs, by id, in one go. GitError (``object_missing``)."""
        return await in_thread(self._objects.sizes, tuple(object_ids))

    async def directories(self, tree_ids: Iterable[str]) -> dict[str, tuple[Node, ...]]:
        """Return the direct entries of trees, by id, in one call. Raises GitError (``object_missing``)."""
        wanted = set(tree_ids)
        known = {tree_id: self._listed[tree_id] for tree_id in wanted & self._listed.keys()}
        missing = tuple(wanted - known.keys())
        if not missing:
            return known
        read = await in_thread(self._objects.directories, missing)
        nodes = sum(map(len, read.values()))
        if nodes <= _REMEMBERED_NODES:
            if nodes + sum(map(len, self._listed.values())) > _REMEMBERED_NODES:
                self._listed = {}
            self._listed |= read
        return known | read

    async def limit_faults(self, tree: str, added: Sequence[bytes], limits: TreeLimits) -> tuple[NameFault, ...]:
        """Return the exceeded limits of paths that a change of ``tree`` (a commit or tree) adds; see ``names.py``."""
        if surely_within_limits(added, limits):
            return ()
        return await in_thread(self._objects.limit_faults, tree, added, limits)

    async def unreadable_faults(self, tree: str, added: Sequence[bytes]) -> tuple[NameFault, ...]:
        """The new names in these paths that are not what a reader takes them for."""
        if surely_readable(added):
            return ()
        return await in_thread(self._objects.unreadable_faults, tree, added)

    async def write_tree(self, baseline: str, changes: Sequence[FileChange]) -> str:
        """The tree id of ``baseline`` (a commit or tree) with ``changes``. DeniedError (``git_path``), MalformedError."""
        return await in_thread(lambda: self._objects.write_tree(self._tree_of(baseline), changes))

    async def with_objects(self, tree: str, changes: Sequence[TreeChange]) -> str:
        """Return ``tree`` with changes whose objects are in the mirror."""
        return self._note_written(await in_thread(self._objects.with_objects, tree, changes))

    async def raw_objects(self, object_ids: Iterable[str], kind: str) -> dict[str, bytes]:
        """Return the bytes of objects of one ``kind`` (``commit`` or ``tree``), by id. Raises GitError (``object_missing``)."""
        return await in_thread(self._objects.raw_objects, tuple(object_ids), kind)

    async def commit_tree(
        self, tree: str, *, parent: str, message: str, when: datetime, author: Person | None = None, signed: bool = False
    ) -> str:
        """A commit by Gatewright, and by ``author`` if there is one; the same arguments give the same id.

        ``when`` is aware, seconds count. ``signed``: sign it where ``signs``; its id may differ each time.
        MalformedError (``bad_message``, ``bad_author``), GitError (``commit_signing_unavailable``).
        """

        def make() -> str:
            signer = self._remote.signer() if signed else None
            return self._objects.commit_tree(tree, parent, message, when, author, signer)

        return await in_thread(make)

    async def signs(self) -> bool:
        """Return whether landed commits are signed for this repository."""
        return await in_thread(self._remote.signs)

    async def demands_signatures(self) -> bool:
        """Return whether the operator declared that this repository refuses unsigned commits."""
        return await in_thread(self._remote.demands_signatures)

    async def put_commit(self, data: bytes, commit: str) -> None:
        """Store a commit that another host made. Raises GitError (``tree_differs``) unless its id is ``commit``."""
        await in_thread(self._objects.put_commit, data, commit)

    async def current(self, ref: str) -> str | None:
        """Return the object that the full name ``ref`` points to in the repository now; None if it does not exist."""
        found = await in_thread_of(self._calls, self._remote.refs, refs.check_full_ref(ref))
        return found.get(ref)

    async def branches(self) -> tuple[str, ...]:
        """The full names of the repository's branches, sorted. GitError (``repository_unreadable``)."""
        found = await in_thread_of(self._calls, self._remote.refs)
        return tuple(sorted(name for name in found if name.startswith("refs/heads/")))

    async def tags(self) -> tuple[Tag, ...]:
        """Return the repository's tags, sorted by name. Raises GitError (``repository_unreadable``)."""
        found = await in_thread_of(self._calls, self._remote.branches_and_tags)
        names = sorted(name for name in found if name.startswith(_TAGS) and not name.endswith("^{}"))
        return tuple(
            Tag(name.removeprefix(_TAGS), found.get(f"{name}^{{}}", found[name]), f"{name}^{{}}" in found) for name in names
        )

    async def checked_out(self, ref: str) -> Path | None:
        """The work tree in which the branch ``ref`` of a repository on this host is checked out. GitError."""
        return await in_thread(self._remote.checked_out, refs.check_full_ref(ref))

    async def target_rules(self) -> TargetRules:
        """The rules of a repository on this host about pushes that are not applied from here. GitError."""
        return await in_thread(self._remote.target_rules)

    async def push(self, commit: str, ref: str, *, expected: str | None) -> None:
        """Move the repository's ``ref`` from ``expected`` (None: it must not exist) to ``commit``; done already is a success.

        GitError: ``landing_conflict``, ``target_checked_out``, ``target_has_hooks``, ``landing_refused``.
        """
        refs.check_object_id(commit)
        if expected is not None:
            refs.check_object_id(expected)
        await in_thread_of(self._calls, self._remote.push, commit, refs.check_landing_ref(ref), expected=expected)

    def _resolve(self, ref: str) -> str:
        if refs.is_object_id(ref):
            return self._fetch_commit(ref)
        found = self._remote.refs(*refs.full_names(ref))
        commits = {found.get(f"{name}^{{}}", found[name]) for name in found if not name.endswith("^{}")}
        if not commits:
            raise GitError(f"the repository has no {ref!a}", code="ref_not_found")
        if len(commits) > 1:
            raise MalformedError(
                f"{ref!a} is a branch and a tag; write the full name, refs/heads/... or refs/tags/...", code="bad_ref"
            )
        return self._fetch_commit(commits.pop())

    def _ensure(self, commit: str) -> None:
        if self._fetch_commit(commit) != commit:
            raise GitError(f"{commit} is not a commit", code="ref_not_found")

    def _fetch_commit(self, object_id: str) -> str:
        """Return the commit of ``object_id``, fetching it unless a ref already keeps it."""
        commit = self._recall(object_id)
        if commit is None:
            with hold_lock(self.path / PRIVATE / "lock", seconds=self._seconds) as lock:
                commit = self._kept_commit(object_id) or self._fetch(object_id, lock)
            self._remember(commit)
        return commit

    def _recall(self, object_id: str) -> str | None:
        """Return the commit of ``object_id`` if a ref already keeps it. Makes no call to the repository's host."""
        if self._is_stale():
            self._forget()
        commit = self._kept_commit(object_id)
        if commit is not None:
            self._remember(commit)
        return commit

    def _remember(self, commit: str) -> None:
        self._kept.add(commit)
        if len(self._kept) > _REMEMBERED:
            self._kept.clear()

    def _kept_commit(self, object_id: str) -> str | None:
        """Return the commit if a ref keeps it: without a ref, an interrupted fetch may have left it incomplete."""
        if object_id in self._kept:
            return object_id
        name = f"{_keep_ref(object_id)}^{{commit}}"
        found = self._git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1, 128))
        with suppress(FileNotFoundError):
            os.utime(self.path / _keep_ref(object_id))  # for the maintenance, which lets go of what is not used
        return found.decode("ascii", "replace").strip() or None

    def _is_stale(self) -> bool:
        return time.monotonic() - self._since > _REMEMBERED_SECONDS

    def _forget(self) -> None:
        """Clear the caches: this or another process may have released objects."""
        self._kept.clear()
        self._trees.clear()
        self._since = time.monotonic()

    def _fetch(self, object_id: str, lock: int) -> str:
        keep = _keep_ref(object_id)
        # The lock is ours and no git of an earlier holder lives: what it left is not in use.
        (self.path / f"{keep}.lock").unlink(missing_ok=True)
        self._remote.fetch(object_id, keep, lock=lock, space=self._room())
        commit = self._objects.peel(object_id, "commit")
        if commit is None:
            raise GitError(f"{object_id} is not a commit", code="ref_not_found")
        if commit != object_id:
            self._git.execute("update-ref", "--no-deref", _keep_ref(commit), commit)
        return commit

    def _tree_of(self, commit: str) -> str:
        if (known := self._trees.get(commit)) is not None:
            return known
        tree = self._objects.peel(commit, "tree")
        if tree is None:
            raise GitError(f"{commit} is not in the mirror", code="object_missing")
        self._remember_tree(commit, tree)
        return tree

    def _note_written(self, tree: str) -> str:
        """A tree that was written here need not be looked for later."""
        self._remember_tree(tree, tree)
        return tree

    def _remember_tree(self, name: str, tree: str) -> None:
        if len(self._trees) > _REMEMBERED:
            self._trees.clear()
        self._trees[name] = tree


def holds(path: Path, commit: str) -> bool:
    """Return whether the mirror at ``path`` has a complete commit. Blocks; raises GitError for a broken mirror."""
    name = f"{_keep_ref(refs.check_object_id(commit))}^{{commit}}"
    return bool(GitCommand(path).execute("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1, 128)).strip())


def _keep_ref(object_id: str) -> str:
    return f"refs/gate/keep/{object_id}"
