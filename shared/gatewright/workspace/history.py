"""A small repository with the last commits of a branch, for ``git log``, ``blame``, ``diff`` and ``status`` in a sandbox.

It has only its own objects: no other branch, no remote, no link to the mirror, no hook and no configuration of the
repository. Some past objects are withheld, and git shows a line of text in their place (``refs/replace``):

1. blobs at masked paths, which the reader of the copy must not see; 2. blobs and commit messages that look like a secret,
unless the checkout has the same blob; 3. old blobs that are large, and all old blobs beyond the bounds, the oldest first.

It has the tags of its commits, so that ``git describe`` gives the same name.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from gatewright.errors import GitError
from gatewright.git.changes import TreeEntry, parse_entries, parse_objects
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirror, Tag
from gatewright.git.modes import SUBMODULE
from gatewright.git.refs import check_object_id, is_ref_name
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.shared_folders import SharedFolders
from gatewright.workspace.threads import finish

BRANCH: Final = "main"
#: Limits of a past blob, and of all past blobs together, which are scanned for secrets.
_BLOB_BYTES: Final = 1 << 20
_PAST_BYTES: Final = 16 << 20
_PAST_BLOBS: Final = 5_000
#: Bytes of the names of all objects.
_LIST_BYTES: Final = 256 << 20
_SECONDS: Final = 120.0
#: Tags, and repositories whose tags are remembered for some seconds.
_MOST_TAGS: Final = 200
_MOST_TAGGED: Final = 16
_TAGS_SECONDS: Final = 60.0
_IN_SHA1: Final = 40
_REASONS: Final = {
    "masked": b"[withheld: the path is masked]\n",
    "secret": b"[withheld: it looks like a secret]\n",
    "size": b"[withheld: it is too large, or too old]\n",
}
_MESSAGE: Final = b"\n\n[withheld: the message looks like a secret]\n"
_CONFIG: Final = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\thooksPath = /dev/null
\tcheckStat = minimal
\ttrustctime = false
{format}[user]
\tname = Agent
\temail = agent@gatewright.invalid
[gc]
\tauto = 0
[maintenance]
\tauto = false
[commit]
\tgpgSign = false
"""


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """``commits`` is the number of commits shown. ``is_masked`` judges a path, ``looks_secret`` contents.

    ``has_past``: files of earlier commits are shown.
    """

    commits: int
    is_masked: Callable[[bytes], bool]
    looks_secret: Callable[[bytes], bool]
    has_past: bool = True


@dataclass(frozen=True, slots=True)
class WantedHistory:
    """The history of a workspace. ``key`` covers everything its content depends on besides the commit."""

    rules: HistoryRules
    key: str


class Surroundings(NamedTuple):
    """The tags of a repository, and paths of a checkout whose files differ from the commit's."""

    tags: tuple[Tag, ...] = ()
    replaced: frozenset[bytes] = frozenset()


class Histories:
    """The ``.git`` folders of commits, each with only the last commits of the repository."""

    def __init__(self, root: Path, account: SandboxAccount, *, most: int) -> None:
        self._folders = SharedFolders(root, account, most=most)
        self._account = account
        self._tags: dict[Path, tuple[float, tuple[Tag, ...]]] = {}

    @asynccontextmanager
    async def use(
        self, mirror: Mirror, commit: str, wanted: WantedHistory, replaced: frozenset[bytes] = frozenset()
    ) -> AsyncIterator[Path]:
        """The folder with the history of ``commit``, read-only while the context is open. Raises GitError.

        ``replaced`` are paths whose files differ from the commit's; git takes them for unchanged.
        """
        around = Surroundings(await self._tags_of(mirror), replaced)
        digest = hashlib.sha256(repr((wanted.key, around.tags, sorted(replaced))).encode()).hexdigest()[:16]
        name = f"{check_object_id(commit)}-{digest}"
        async with self._folders.use(name, partial(self._write_history, mirror, commit, wanted.rules, around)) as folder:
            yield folder

    async def _tags_of(self, mirror: Mirror) -> tuple[Tag, ...]:
        since, known = self._tags.get(mirror.path, (-_TAGS_SECONDS, ()))
        if time.monotonic() - since > _TAGS_SECONDS:
            known = await mirror.tags()
            self._tags = dict([*list(self._tags.items())[1 - _MOST_TAGGED :], (mirror.path, (time.monotonic(), known))])
        return known

    async def _write_history(
        self, mirror: Mirror, commit: str, rules: HistoryRules, around: Surroundings, folder: Path
    ) -> None:
        await mirror.ensure(commit)
        await finish(write_history, mirror.path, commit, folder, rules, around)
        await finish(hand_over, folder, self._account)


def hand_over(folder: Path, account: SandboxAccount) -> None:
    """Give ``folder``, which holds plain files of ours, to ``account``; git refuses a repository of another owner."""
    for above, folders, files in os.walk(folder):
        for name in folders:
            Path(above, name).chmod(0o755)  # regardless of the umask
        for name in files:
            Path(above, name).chmod(0o644)
        if account.switched:
            for name in (*folders, *files):
                os.chown(Path(above, name), account.uid, account.gid, follow_symlinks=False)


def history_length(mirror: Path, commit: str, most: int) -> int:
    """Return how many commits a history of at most ``most`` shows. Blocks. Raises GitError."""
    counted = GitCommand(mirror).execute(
        "rev-list", "--count", f"--max-count={most}", "--end-of-options", check_object_id(commit)
    )
    return int(counted)


def write_history(mirror: Path, commit: str, target: Path, rules: HistoryRules, around: Surroundings) -> None:
    """Fill the empty folder ``target``, the ``.git`` of a checkout of ``commit``. Blocks. Raises GitError."""
    _History(GitCommand(mirror), check_object_id(commit), target, rules, around).write()


class _History:
    def __init__(self, mirror: GitCommand, commit: str, target: Path, rules: HistoryRules, around: Surroundings) -> None:
        self._mirror = mirror
        self._commit = commit
        self._target = target
        self._rules = rules
        self._tags, self._replaced = around
        self._git = GitCommand(target)
        self._entries: tuple[TreeEntry, ...] = ()

    def write(self) -> None:
        commits = self._commits()
        self._entries = parse_entries(self._mirror.execute("ls-tree", "-r", "-z", "-l", self._commit, limit=_LIST_BYTES))
        objects = self._objects()
        withheld = self._withheld(objects, commits)
        self._make_repository(commits)
        kept = "".join(f"{each}\n" for each in (*commits, *objects) if each not in withheld)
        pack = self._target / "objects" / "pack" / "pack"
        settings = {"pack.window": "0", "pack.threads": "1", "pack.compression": "1"}
        self._mirror.execute("pack-objects", "-q", str(pack), stdin=kept.encode(), timeout=_SECONDS, settings=settings)
        self._write_refs(withheld, commits)
        self._write_index()

    def _commits(self) -> dict[str, tuple[str, ...]]:
        """The commits that are shown, each with its parents."""
        most = f"--max-count={self._rules.commits}"
        output = self._mirror.execute("rev-list", most, "--parents", "--end-of-options", self._commit, limit=_LIST_BYTES)
        lines = (line.split() for line in output.decode("ascii", "replace").splitlines())
        return {name: tuple(parents) for name, *parents in lines}

    def _objects(self) -> dict[str, bytes]:
        """Return the trees and blobs of those commits by id, each with a path; those of the latest commit come first."""
        most = f"--max-count={self._rules.commits if self._rules.has_past else 1}"
        output = self._mirror.execute(
            "rev-list",
            "--objects",
            "--in-commit-order",
            most,
            "--end-of-options",
            self._commit,
            limit=_LIST_BYTES,
            timeout=_SECONDS,
        )
        named = (line.partition(b" ") for line in output.splitlines())
        return {name.decode("ascii", "replace"): path for name, blank, path in named if blank}

    def _withheld(self, objects: Mapping[str, bytes], commits: Iterable[str]) -> dict[str, bytes]:
        """Return the withheld objects by id, with the replacement content of the blob or commit."""
        masked = {entry.object_id for entry in self._entries if self._rules.is_masked(entry.path)}
        shown = {entry.object_id for entry in self._entries if not self._rules.is_masked(entry.path)}
        withheld = dict.fromkeys(masked - shown, _REASONS["masked"])
        past = [name for name in objects if name not in shown and name not in withheld]
        readable, size, count = [], 0, 0
        for name, kind, length in self._sizes(past):
            if kind != "blob":
                continue
            if self._rules.is_masked(objects[name]):
                withheld[name] = _REASONS["masked"]
            elif length > _BLOB_BYTES or size + length > _PAST_BYTES or count == _PAST_BLOBS:
                withheld[name] = _REASONS["size"]
            else:
                size, count = size + length, count + 1
                readable.append(name)
        for name, content in self._read_objects(readable, "blob"):
            if self._rules.looks_secret(content):
                withheld[name] = _REASONS["secret"]
        for name, content in self._read_objects(commits, "commit"):
            head, _, message = content.partition(b"\n\n")
            if self._rules.looks_secret(message):
                withheld[name] = head + _MESSAGE
        return withheld

    def _sizes(self, names: Sequence[str]) -> Iterator[tuple[str, str, int]]:
        if not names:
            return
        asked = "".join(f"{name}\n" for name in names).encode()
        output = self._mirror.execute("cat-file", "--batch-check", "--buffer", stdin=asked, timeout=_SECONDS)
        for line in output.decode("ascii", "replace").splitlines():
            name, kind, *size = line.split()
            if not size:
                raise GitError(f"{name} is not in the mirror", code="object_missing")
            yield name, kind, int(size[0])

    def _read_objects(self, names: Iterable[str], kind: str) -> Iterator[tuple[str, bytes]]:
        asked = "".join(f"{name}\n" for name in names).encode()
        if asked:
            yield from parse_objects(
                self._mirror.execute("cat-file", "--batch", "--buffer", stdin=asked, timeout=_SECONDS), kind
            )

    def _make_repository(self, commits: Mapping[str, Sequence[str]]) -> None:
        for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
            (self._target / folder).mkdir(parents=True)
        sha1 = len(self._commit) == _IN_SHA1
        form = "" if sha1 else "[extensions]\n\tobjectFormat = sha256\n"
        (self._target / "config").write_text(_CONFIG.format(version=0 if sha1 else 1, format=form))
        (self._target / "HEAD").write_text(f"ref: refs/heads/{BRANCH}\n")
        cut = [name for name, parents in commits.items() if any(parent not in commits for parent in parents)]
        if cut:
            (self._target / "shallow").write_text("".join(f"{name}\n" for name in sorted(cut)))

    def _write_refs(self, withheld: Mapping[str, bytes], commits: Iterable[str]) -> None:
        """Write a replacement ref for each withheld object, and the tags of the commits, without their messages."""
        made: dict[bytes, str] = {}
        for content in withheld.values():
            if content not in made:
                kind = "blob" if content in _REASONS.values() else "commit"
                written = self._git.execute("hash-object", "-w", "-t", kind, "--stdin", stdin=content)
                made[content] = written.decode("ascii", "replace").strip()
        refs = {f"refs/replace/{name}": made[content] for name, content in withheld.items()}
        refs[f"refs/heads/{BRANCH}"] = self._commit
        age = {name: number for number, name in enumerate(commits)}
        shown = sorted((each for each in self._tags if each.target in age), key=lambda each: age[each.target])
        for tag in filter(lambda each: is_ref_name(each.name), shown[:_MOST_TAGS]):
            target = tag.target
            if tag.annotated:
                text = f"object {target}\ntype commit\ntag {tag.name}\ntagger Gatewright <gatewright@localhost> 0 +0000\n\n"
                written = self._git.execute("hash-object", "-w", "-t", "tag", "--stdin", stdin=text.encode())
                target = written.decode("ascii", "replace").strip()
            refs[f"refs/tags/{tag.name}"] = target
        lines = "".join(f"{target} {ref}\n" for ref, target in sorted(refs.items()))
        (self._target / "packed-refs").write_text(f"# pack-refs with: sorted \n{lines}")

    def _write_index(self) -> None:
        """Write the commit's index, in which masked files, which the checkout lacks, are marked as present."""
        plain = {"index.skipHash": "false", "index.version": "2"}
        index = self._target / "index"
        self._git.execute("read-tree", "--end-of-options", self._commit, index=index, settings=plain, timeout=_SECONDS)
        masked = [each.path for each in self._entries if self._rules.is_masked(each.path) and each.mode != SUBMODULE]
        for option, paths in (("--skip-worktree", masked), ("--assume-unchanged", sorted(self._replaced))):
            if paths:
                names, there = b"".join(path + b"\0" for path in paths), {"GIT_WORK_TREE": str(self._target)}
                words = ("update-index", option, "-z", "--stdin")
                self._git.execute(*words, stdin=names, index=index, settings=plain, environment=there)
