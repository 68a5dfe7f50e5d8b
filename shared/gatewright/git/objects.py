"""Operations on the objects of a mirror: apply a patch, build and compare trees, read blobs, make a commit.

No file is checked out and no remote is contacted. Every method blocks its thread; ``gatewright.git.mirror`` is the
interface.
"""

from __future__ import annotations

import re
import signal
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.contracts.vocabulary import Person
from gatewright.errors import DeniedError, GatewrightError, GitError, MalformedError, PatchError
from gatewright.git import fast_import
from gatewright.git.attributes.reader import AttributeReader
from gatewright.git.attributes.stored_form import Attributes
from gatewright.git.changes import (
    FileChange,
    Node,
    TreeChange,
    TreeEntry,
    parse_changes,
    parse_copies,
    parse_directory,
    parse_entries,
    parse_objects,
    parse_sizes,
)
from gatewright.git.command import CommandFailedError, GitCommand
from gatewright.git.index_cache import IndexCache
from gatewright.git.kept.readers import KeptReaders
from gatewright.git.modes import ABSENT, DIRECTORY, SUBMODULE
from gatewright.git.names import Known, NameFault, TreeLimits, limit_faults, unreadable_faults
from gatewright.git.patches import refusals
from gatewright.git.patches.files import Reading
from gatewright.git.patches.outcome import Check, Outcome, copied_paths
from gatewright.git.patches.part import MOST_PATHS, part_of
from gatewright.git.patches.reader import read_patch
from gatewright.git.patches.refusals import meant_elsewhere
from gatewright.git.paths import display
from gatewright.git.process import KilledError, OutputTooLargeError
from gatewright.git.refs import check_object_id, object_id
from gatewright.patterns import BytesPattern

if TYPE_CHECKING:
    from gatewright.git.access.signing import CommitSigner

#: Largest patch in bytes, received or made here.
PATCH_LIMIT = 128 << 20
#: The largest single piece of memory for applying one: a few hundred compressed bytes could make it as large as they like.
APPLY_MEMORY = 1 << 30
#: Seconds that applying one may take; an honest one takes a moment.
APPLY_SECONDS = 120.0
#: Bytes that one call for blobs may return.
BLOBS_LIMIT = 1 << 30
#: Bytes of the contents that are held against a patch at one time.
VERIFIED_AT_ONCE = 64 << 20
#: Bytes of all the names in a tree.
NAMES_LIMIT = 256 << 20
#: Bytes of a path that a refusal quotes.
_QUOTED = 120
#: Maximum number of reported name faults.
_MOST_FAULTS = 200
#: Size in bytes from which rewriting an index costs more than comparing it: some 10,000 files.
LARGE_INDEX = 1 << 20
#: git's exit code when it gives up instead of answering.
_DIED = 128
#: git's messages about its own object store, which are no fault of a patch.
_STORE_FAILED = BytesPattern(rb"(?m)^error: unable to create temporary file: ")
#: Seconds for one signature: an agent may ask its owner for a touch.
SIGNING_SECONDS = 60.0
_GATEWRIGHT = Person(name="Gatewright", email="gatewright@localhost")
#: The schema refuses these; what is made here must hold without it.
_FORGES = re.compile(r"[\x00-\x1f\x7f<>]")  # noqa: TID251 - linear: single characters

#: The options that make git print the same change identically on all machines and versions.
_CANONICAL = (
    "--patch",
    "-r",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "-O/dev/null",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--unified=3",
    "--inter-hunk-context=0",
    "--submodule=short",
    "--ignore-submodules=none",
)


class Objects:
    """The objects of the repository of ``git``; ``directory`` is for private indexes.

    ``kept`` has long-running processes, for a repository that is read often; without it each call starts its own.
    """

    def __init__(self, git: GitCommand, directory: Path, kept: KeptReaders | None = None) -> None:
        self._git = git
        self._kept = kept
        self._indexes = IndexCache(directory, self._read_tree)
        self._attributes = AttributeReader(git, directory, self._indexes)
        self._is_large = False
        #: The last comparison: an applied patch is checked by it, and the gate asks for the same one then.
        self._compared: tuple[tuple[str, str], tuple[TreeChange, ...]] = (("", ""), ())

    def peel(self, object_id: str, kind: str) -> str | None:
        """Return the id of the ``kind`` (``commit`` or ``tree``) that an object id stands for; None if missing or of another
        kind."""
        name = f"{check_object_id(object_id)}^{{{kind}}}"
        output = self._kept.objects(self._git, "info", [name], len(object_id)) if self._kept is not None else None
        match (output or b"").decode("ascii", "replace").split():
            case [found_id, found_kind, _] if found_kind == kind:
                return check_object_id(found_id)
        found = self._git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1, _DIED))
        return found.decode("ascii", "replace").strip() or None

    def apply(self, tree: str, patch: bytes, reading: Reading | None = None) -> str:
        """Return the id of ``tree`` with ``patch`` applied; an empty patch changes nothing.

        1. The patch is read completely. 2. It names nothing beyond the limits. 3. git applies it. 4. The result of git
        equals the patch as read.

        Raises:
            PatchError: the patch is refused.
            GitError: git cannot write the result.
        """
        check_object_id(tree)
        if not patch:
            return tree
        if len(patch) > PATCH_LIMIT:
            raise PatchError(f"the patch has {len(patch)} bytes, more than {PATCH_LIMIT}", code="patch_too_large")
        reading = reading or read_patch(patch)  # 1
        self._refuse_beyond_limits(tree, reading.paths(), PatchError)  # 2
        self._refuse_in_submodules(tree, frozenset(reading.paths()), PatchError)
        known = self._present(file.new_id.decode() for file in reading.files if file.binary is not None)
        made = self._apply_reading(tree, patch, reading)  # 3
        self._verify(tree, made, patch, reading, known)  # 4
        return made

    def _apply_reading(self, tree: str, patch: bytes, reading: Reading) -> str:
        try:
            return self._apply(tree, patch, reading)
        except CommandFailedError as error:
            if error.status != _DIED:
                raise self._refusal(error, tree, patch, reading) from error
        # git gave up. Before the patch is blamed, the kept index is: a crash of the host may have damaged it.
        self._indexes.forget(tree)
        try:
            return self._apply(tree, patch, reading)
        except CommandFailedError as error:
            raise self._refusal(error, tree, patch, reading) from error

    def _verify(self, tree: str, made: str, patch: bytes, reading: Reading, known: frozenset[str]) -> None:
        """Check that ``made`` is ``tree`` with the patch as read. Raises PatchError (``patch_outcome_differs``)."""
        changes = {change.path: change for change in self.changes(tree, made)}
        copied = sorted(path for path in copied_paths(reading) if path not in changes)
        listed = self.files(tree, [path.decode("utf-8", "surrogateescape") for path in copied]) if copied else ()
        outcome = Outcome(patch, reading, changes, {entry.path: entry.object_id for entry in listed}, known)
        self._refuse_other_places(tree, reading, changes)
        for checks in self._batches(list(outcome.checks())):
            contents = {"": b"", **self.blobs(check.old for check in checks if check.old)}
            for check in checks:
                if not outcome.is_expected(check, contents[check.old]):
                    outcome.verify_lines(check, contents[check.old], self.blobs((check.new,))[check.new])

    def _batches(self, checks: Sequence[Check]) -> Iterator[list[Check]]:
        """Yield ``checks`` in batches whose contents fit in memory."""
        sizes = self.sizes(check.old for check in checks if check.old)
        batch: list[Check] = []
        held = 0
        for check in checks:
            size = sizes.get(check.old, 0)
            if batch and held + size > VERIFIED_AT_ONCE:
                yield batch
                batch, held = [], 0
            batch.append(check)
            held += size
        if batch:
            yield batch

    def _refuse_other_places(self, tree: str, reading: Reading, changes: Mapping[bytes, TreeChange]) -> None:
        """Refuse a patch that was made for a file of the same content below another folder, by the ids that it names."""
        before = {change.path: change.old_id for change in changes.values() if change.old_mode != ABSENT}
        doubtful = [
            file
            for file in reading.files
            if file.old in before and file.old_id and not before[file.old].startswith(file.old_id.decode())
        ]
        if not doubtful or not self._present(file.old_id.decode() for file in doubtful):
            return
        meant_elsewhere(doubtful, self.files(tree, ()))

    def _present(self, object_ids: Iterable[str]) -> frozenset[str]:
        """Return the ids, possibly abbreviated, that stand for blobs of this repository."""
        wanted = sorted(set(object_ids))
        if not wanted:
            return frozenset()
        output = self._git.execute(
            "cat-file", "--batch-check=%(objecttype)", stdin="".join(f"{each}\n" for each in wanted).encode()
        )
        lines = output.split(b"\n")[:-1]
        return frozenset(each for each, line in zip(wanted, lines, strict=True) if line == b"blob")

    def _refusal(self, error: CommandFailedError, tree: str, patch: bytes, reading: Reading) -> GatewrightError:
        """Return the error for a failed ``git apply``: the patch's fault, unless git reports a problem of its own files."""
        if _STORE_FAILED.first(error.stderr) is not None:
            return error
        words, path, missing = refusals.explain(error.stderr, error.output, patch, reading)
        if missing and path is not None:
            words = f"{words} {refusals.advice_for_missing(path, sorted(self._known_tree(tree).files))}"
        return PatchError(words, path=path)

    def _refuse_beyond_limits(self, tree: str, paths: Iterable[bytes], kind: type[DeniedError]) -> None:
        """Raises ``kind`` when ``paths``, which a change of ``tree`` names, are beyond what any tree may get.

        Before git meets them: it looks for attributes in every folder above a path, and builds trees by recursion.
        """
        for fault in limit_faults(paths, cache(lambda: self._known_tree(tree))):
            raise kind(f"{display(fault.path[:_QUOTED])!r}: {fault.words}", code=fault.code)

    def _refuse_in_submodules(self, tree: str, paths: frozenset[bytes], kind: type[DeniedError]) -> None:
        """Refuse paths below a submodule of ``tree``, unless the submodule itself changes with them."""
        wanted = {path[:at]: path for path in paths for at, sign in enumerate(path) if sign == ord("/")}
        level = {b"": self.peel(tree, "tree") or tree} if wanted else {}
        while level:
            nodes = self.directories(frozenset(level.values()))
            below = {}
            for folder, tree_id in level.items():
                if not folder and all(node.name != b".gitmodules" for node in nodes[tree_id]):
                    return
                for node in nodes[tree_id]:
                    path = folder + node.name
                    if path not in wanted:
                        continue
                    if node.mode == SUBMODULE and path not in paths:
                        words = f"{display(wanted[path])} is in the submodule {display(path)}, whose files are read-only here"
                        advice = "change it in the repository of the submodule, then move the submodule to that commit"
                        raise kind(f"{words}; {advice}", code="submodule_changed")
                    if node.mode == DIRECTORY:
                        below[path + b"/"] = node.object_id
            level = below

    def limit_faults(self, tree: str, added: Sequence[bytes], limits: TreeLimits) -> tuple[NameFault, ...]:
        """Return the exceeded limits of paths that a change of ``tree`` adds, up to a maximum number."""
        return tuple(islice(limit_faults(added, cache(lambda: self._known_tree(tree)), limits), _MOST_FAULTS))

    def unreadable_faults(self, tree: str, added: Sequence[bytes]) -> tuple[NameFault, ...]:
        """New names in paths that a change of ``tree`` adds that are not what a reader takes them for."""
        return tuple(islice(unreadable_faults(added, cache(lambda: self._known_tree(tree))), _MOST_FAULTS))

    def _known_tree(self, tree: str) -> Known:
        listed = self._git.execute(
            "ls-tree", "-r", "-z", "--name-only", "--full-tree", check_object_id(tree), limit=NAMES_LIMIT
        )
        return Known(listed.split(b"\0")[:-1])

    def _apply(self, tree: str, patch: bytes, reading: Reading) -> str:
        # The size of the last complete index decides only which way is cheaper.
        if self._is_large and (made := self._apply_to_part(tree, patch, reading)) is not None:
            return made
        with self._indexes.private(tree) as index:
            self._apply_to_index(index, patch, reading.strip)
            self._is_large = index.stat().st_size >= LARGE_INDEX
            result = self._tree_of_index(index, tree)
            self._indexes.keep(result, index)
            return result

    def _apply_to_part(self, tree: str, patch: bytes, reading: Reading) -> str | None:
        """Return ``tree`` with ``patch``, using an index of the named paths only; None if the whole index is needed."""
        part = part_of(tree, frozenset(islice(reading.paths(), MOST_PATHS + 1)), self.directories)
        if part is None:
            return None
        with self._indexes.empty() as index:
            try:
                if part.entries:
                    self._git.execute("update-index", "-z", "--index-info", stdin=part.index_info, index=index)
                self._apply_to_index(index, patch, reading.strip)
            except CommandFailedError:
                return None
            changes = part.changes(self._git.execute("ls-files", "--stage", "-z", index=index))
        return None if changes is None else self.with_objects(tree, changes)

    def _apply_to_index(self, index: Path, patch: bytes, strip: int) -> None:
        """CommandFailedError where git refuses it, PatchError where it takes too long or meets an assertion of git's."""
        bounded = {"GIT_ALLOC_LIMIT": str(APPLY_MEMORY)}
        how = ("--cached", "--whitespace=nowarn", f"-p{strip}")
        try:
            self._git.execute("apply", *how, stdin=patch, index=index, environment=bounded, timeout=APPLY_SECONDS)
        except KilledError as error:
            if error.number != signal.SIGABRT:
                raise
            # Some malformed patches hit an assertion in git: nothing was written or applied.
            raise PatchError("the patch does not apply: git gave up on its form") from error
        except GitError as error:
            if error.reason != "git_timeout":
                raise
            # git searches the whole file for each hunk with a wrong position. A retry would take as long.
            raise PatchError(f"the patch was not applied within {APPLY_SECONDS:g} s", code="patch_limit") from error

    def _tree_of_index(self, index: Path, baseline: str) -> str:
        """The tree that ``index`` holds. A large one is compared with ``baseline``, not written again with all its entries."""
        if index.stat().st_size < LARGE_INDEX:
            return check_object_id(self._git.execute("write-tree", index=index).decode("ascii", "replace").strip())
        options = ("--cached", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
        changes = parse_changes(self._git.execute("diff-index", *options, baseline, index=index))
        return self.with_objects(baseline, changes)

    def with_objects(self, tree: str, changes: Sequence[TreeChange]) -> str:
        """Return the id of ``tree`` with changes whose objects are in the repository."""
        return self._import(lambda scratch: fast_import.stream_of_objects(tree, changes, scratch)) if changes else tree

    def _read_tree(self, tree: str, index: Path) -> None:
        try:
            self._git.execute("read-tree", "--end-of-options", tree, index=index)
        except CommandFailedError as error:
            raise GitError(f"tree {tree} cannot be read: {error.output}", code="object_missing") from error

    def changes(self, old: str, new: str) -> tuple[TreeChange, ...]:
        """Return the differences between two commits or trees, sorted by path."""
        asked, known = self._compared
        if asked == (old, new):
            return known
        options = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "--no-relative")
        output = self._kept_differences(options, check_object_id(old), check_object_id(new))
        found = parse_changes(output if output is not None else self._git.execute("diff-tree", *options, old, new))
        self._compared = (old, new), found
        return found

    def copies(self, old: str, new: str) -> dict[bytes, bytes]:
        """The files of ``new`` that ``old`` lacks and that have just the content of one of its files, with its path."""
        # Contents are compared by their ids alone: without likeness, no file is read.
        options = ("-r", "-z", "--raw", "--no-abbrev", "-C100%", "--find-copies-harder", "--ignore-submodules=none")
        return parse_copies(self._git.execute("diff-tree", *options, check_object_id(old), check_object_id(new)))

    def attributes(self, tree: str, paths: Sequence[bytes]) -> Mapping[bytes, Attributes]:
        """Return the attributes of ``paths`` that decide what git stores, by the tree's own files; see
        ``AttributeReader.read``."""
        return self._attributes.read(tree, paths, self.directories, self.sizes) if paths else {}

    def _kept_differences(self, options: tuple[str, ...], old: str, new: str, limit: int | None = None) -> bytes | None:
        """Return the differences from a kept process, which accepts trees only; None if a new process must answer."""
        if self._kept is None:
            return None
        trees = [self.peel(object_id, "tree") for object_id in (old, new)]
        return None if None in trees else self._kept.differences(self._git, options, str(trees[0]), str(trees[1]), limit)

    def diff(self, old: str, new: str) -> bytes:
        """The canonical patch from ``old`` to ``new``. PatchError (``patch_too_large``) beyond ``PATCH_LIMIT`` bytes."""
        try:
            output = self._kept_differences(_CANONICAL, check_object_id(old), check_object_id(new), PATCH_LIMIT)
            return output if output is not None else self._git.execute("diff-tree", *_CANONICAL, old, new, limit=PATCH_LIMIT)
        except OutputTooLargeError as error:
            raise PatchError(f"the change is longer than {PATCH_LIMIT} bytes as a patch", code="patch_too_large") from error

    def files(self, tree: str, paths: Sequence[str]) -> tuple[TreeEntry, ...]:
        """The files of a commit or tree, those at or below ``paths`` if any are given (literal, no wildcards), sorted."""
        if not all(paths) or any("\0" in path for path in paths):
            raise MalformedError("a path is empty or holds a NUL character", code="bad_path")
        return parse_entries(self._git.execute("ls-tree", "-r", "-z", "-l", "--full-tree", check_object_id(tree), "--", *paths))

    def blobs(self, object_ids: Iterable[str], limit: int = BLOBS_LIMIT) -> dict[str, bytes]:
        """Content by id. GitError ``object_missing`` for what is no blob here, OutputTooLargeError beyond ``limit`` bytes."""
        wanted = sorted({check_object_id(object_id) for object_id in object_ids})
        if not wanted:
            return {}
        return dict(parse_objects(self._batch("--batch", wanted, limit), "blob"))

    def sizes(self, object_ids: Iterable[str]) -> dict[str, int]:
        """Bytes of blobs by id. GitError (``object_missing``) for what is no blob here."""
        wanted = sorted({check_object_id(object_id) for object_id in object_ids})
        return dict(parse_sizes(self._batch("--batch-check", wanted))) if wanted else {}

    def directories(self, tree_ids: Iterable[str]) -> dict[str, tuple[Node, ...]]:
        """Return the direct entries of trees by id. Raises GitError (``object_missing``) for an id that is no tree here."""
        wanted = sorted({check_object_id(tree_id) for tree_id in tree_ids})
        if not wanted:
            return {}
        trees = parse_objects(self._batch("--batch", wanted), "tree")
        return {tree_id: parse_directory(content, len(tree_id) // 2) for tree_id, content in trees}

    def raw_objects(self, object_ids: Iterable[str], kind: str) -> dict[str, bytes]:
        """Return the bytes of objects of one kind by id. Raises GitError (``object_missing``) for an id that is none here."""
        wanted = sorted({check_object_id(object_id) for object_id in object_ids})
        return dict(parse_objects(self._batch("--batch", wanted), kind)) if wanted else {}

    def _batch(self, form: str, object_ids: Sequence[str], limit: int = BLOBS_LIMIT) -> bytes:
        if self._kept is not None:
            how = "contents" if form == "--batch" else "info"
            output = self._kept.objects(self._git, how, list(object_ids), len(object_ids[0]), limit)
            if output is not None:
                return output
        asked = "".join(f"{object_id}\n" for object_id in object_ids).encode()
        return self._git.execute("cat-file", form, "--buffer", stdin=asked, limit=limit)

    def write_tree(self, tree: str, changes: Sequence[FileChange]) -> str:
        """The id of ``tree`` with ``changes``; the errors are those of ``fast_import.checked``."""
        if not changes:
            return check_object_id(tree)
        self._refuse_beyond_limits(tree, (change.path for change in changes if change.mode is not None), DeniedError)
        self._refuse_in_submodules(tree, frozenset(change.path for change in changes), DeniedError)
        wanted = fast_import.check_changes(changes)
        return self._import(lambda scratch: fast_import.stream(check_object_id(tree), wanted, scratch))

    def _import(self, stream: Callable[[str], bytes]) -> str:
        """The id of the tree that a stream for fast-import makes, given a ref for it to work on."""
        commands = stream(f"refs/gate/scratch/{uuid.uuid4().hex}")
        try:
            answer = self._git.execute("fast-import", "--quiet", "--done", stdin=commands)
        except CommandFailedError:
            self._remove_crash_reports()
            raise
        if (result := fast_import.tree_in(answer)) is None:
            raise GitError("git fast-import did not name the tree")
        return result

    def _remove_crash_reports(self) -> None:
        # They quote the stream, and are not read here.
        for report in self._git.git_dir.glob("fast_import_crash_*"):
            with suppress(FileNotFoundError):
                report.unlink()

    def commit_tree(
        self,
        tree: str,
        parent: str,
        message: str,
        when: datetime,
        author: Person | None = None,
        signer: CommitSigner | None = None,
    ) -> str:
        """The id of a commit that depends on the arguments alone; the committer is Gatewright, ``author`` who is given.

        With ``signer`` git signs it. Most signatures differ each time, and so does the id.

        MalformedError: ``bad_message`` for a NUL in the message, ``bad_author`` for a name that would not be one line.
        GitError: ``commit_signing_unavailable``.
        """
        if "\0" in message:
            raise MalformedError("a commit message cannot hold a NUL character", code="bad_message")
        date = f"{int(when.timestamp())} +0000"
        by = author or _GATEWRIGHT
        if _FORGES.search(by.name + by.email):
            raise MalformedError("the author's name or address would forge a commit", code="bad_author")
        identity = {"GIT_AUTHOR_NAME": by.name, "GIT_AUTHOR_EMAIL": by.email, "GIT_AUTHOR_DATE": date}
        landed_by = signer.committer if signer is not None and signer.committer is not None else _GATEWRIGHT
        identity |= {"GIT_COMMITTER_NAME": landed_by.name, "GIT_COMMITTER_EMAIL": landed_by.email}
        identity |= {"GIT_COMMITTER_DATE": date}
        words = ("commit-tree", "-p", check_object_id(parent), "-F", "-")
        text, tree = message.encode("utf-8", "replace"), check_object_id(tree)
        if signer is None:
            made = self._git.execute(*words, "--no-gpg-sign", tree, stdin=text, environment=identity)
        else:
            made = self._sign((*words, "--gpg-sign", tree), text, identity, signer)
        return check_object_id(made.decode("ascii", "replace").strip())

    def _sign(self, words: Sequence[str], text: bytes, identity: Mapping[str, str], signer: CommitSigner) -> bytes:
        environment = {**identity, **signer.environment}
        try:
            return self._git.execute(
                *words, stdin=text, environment=environment, settings=signer.settings, timeout=SIGNING_SECONDS
            )
        except CommandFailedError as error:
            raise signer.refusal(error.output) from error
        except GitError as error:
            if error.reason != "git_timeout":
                raise
            raise signer.refusal(f"the program did not answer within {SIGNING_SECONDS:g} s") from error

    def put_commit(self, data: bytes, commit: str) -> None:
        """Store a commit that another host made. Raises GitError (``tree_differs``) unless its id is ``commit``."""
        if object_id("commit", data, len(check_object_id(commit))) != commit:
            raise GitError(f"the stored commit is not {commit}", code="tree_differs")
        self._git.execute("hash-object", "-t", "commit", "-w", "--stdin", stdin=data)
