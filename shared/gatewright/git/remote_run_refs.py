"""The branches of runs in a repository of another host: which there are, which of them are merged, and deleting them there.

What the owner's branches and tags lead to is fetched into a passing copy: commits alone, where the server can leave files out.
Names that the server chooses become no files here: what is fetched is kept under its id. A branch of a run is never fetched. It
is merged when its commit is among those that the owner's lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from gatewright.errors import GatewrightError, GitError, MalformedError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.refusals import TOO_LARGE
from gatewright.git.command import GitCommand
from gatewright.git.host.run_refs import RunRef
from gatewright.git.mirror_room import LEAST, size_of
from gatewright.git.process import OutputTooLargeError
from gatewright.git.refs import RUN_BRANCHES, Source, check_full_ref
from gatewright.git.remote import Remote

#: Branches and tags of the owner's that are looked at: each is a file of the copy.
MOST_REFS = 100_000
#: Bytes of the ids of all commits that they lead to: some six million.
_LIMIT = 256 << 20
_KEEP = "refs/gate/keep/"
_PEELED = "^{}"
#: Errors that concern one branch. After any other error the server is not contacted again.
_OF_ONE_BRANCH = frozenset({"ref_moved", "deletion_refused"})

T = TypeVar("T")


class RemoteRunRefs:
    """The run branches of a remote repository, checked in ``copy``, a temporary repository of at most ``most`` bytes.

    ``seconds`` bounds a transfer. Every method blocks its thread, and raises GitError or DeniedError. After one failure the
    server is not contacted again: later calls raise the same error without waiting.
    """

    def __init__(self, copy: Path, source: Source, access: RepositoryAccess, *, most: int, seconds: float = 900) -> None:
        self.place = source.address
        self._git = GitCommand(copy)
        self._remote = Remote(GitCommand(copy, protocols=(source.protocol,)), source, seconds=seconds, access=access)
        self._most = most
        self._settings = b""
        self._kept: set[str] = set()
        self._wanted: frozenset[str] = frozenset()
        self._owners: frozenset[str] = frozenset()
        self._merged: frozenset[str] = frozenset()
        self._lost: GatewrightError | None = None

    def found(self) -> tuple[RunRef, ...]:
        """Return all run branches by name, without date and subject, which would need a fetch of each."""
        runs = self._with_remote(lambda: self._lookup_refs(refresh=True))
        return tuple(self._ref(name, runs[name]) for name in sorted(runs))

    def again(self, name: str) -> RunRef | None:
        """Return the current state of a listed branch; at another commit than before it is unmerged."""
        runs = self._with_remote(self._lookup_refs)
        return self._ref(name, runs[name]) if name in runs else None

    def delete(self, found: RunRef) -> None:
        """Delete it, if it still is at that commit. See ``Remote.delete``."""
        check_full_ref(found.ref)
        self._with_remote(lambda: self._remote.delete(found.ref, expected=found.commit))

    def _with_remote(self, ask: Callable[[], T]) -> T:
        if self._lost is not None:
            raise self._lost
        try:
            return ask()
        except GatewrightError as error:
            if error.reason not in _OF_ONE_BRANCH:
                self._lost = error
            raise

    def _ref(self, name: str, commit: str) -> RunRef:
        return RunRef(name, commit, "", "", "merged" if commit in self._merged else "unmerged")

    def _lookup_refs(self, *, refresh: bool = False) -> Mapping[str, str]:
        """Names of runs to commits, as they are now; with what is merged by now. ``refresh``: these are the runs that count."""
        try:
            runs, tips, commits = self._list_refs()
            self._fetch(tips)
        except GitError as error:
            if error.reason != "ref_not_found":
                raise
            runs, tips, commits = self._list_refs()  # a listed ref may be gone before it is fetched
            self._fetch(tips)
        if refresh:
            self._wanted = frozenset(runs.values())
        if refresh or commits != self._owners:
            self._merged, self._owners = self._reached_commits(commits) if commits else frozenset(), commits
        return runs

    def _list_refs(self) -> tuple[dict[str, str], frozenset[str], frozenset[str]]:
        """Return run names with commits, the owner's branches and tags, and the commits these point to."""
        found = self._remote.branches_and_tags()
        runs = {
            name.removeprefix(RUN_BRANCHES): object_id
            for name, object_id in found.items()
            if name.startswith(RUN_BRANCHES) and _well_formed(name)
        }
        owners = {name: object_id for name, object_id in found.items() if not name.startswith(RUN_BRANCHES)}
        tips = frozenset(object_id for name, object_id in owners.items() if not name.endswith(_PEELED))
        if len(tips) > MOST_REFS:
            raise OutputTooLargeError(f"{self.place} has more than {MOST_REFS} branches and tags")
        commits = frozenset(owners.get(name + _PEELED, owners[name]) for name in owners if not name.endswith(_PEELED))
        return runs, tips, commits

    def _fetch(self, tips: frozenset[str]) -> None:
        missing = tips - self._kept
        if not missing:
            return
        copy = self._git.git_dir
        if not copy.exists():
            form = "sha256" if len(next(iter(tips))) == 64 else "sha1"
            self._git.execute("init", "--quiet", "--bare", "--template=", f"--object-format={form}")
            self._settings = (copy / "config").read_bytes()
        space = self._most - size_of(copy)
        if space < LEAST:
            raise GitError(f"the copy of {self.place} takes more than {self._most} bytes", code=TOO_LARGE)
        try:
            self._remote.fetch_histories(sorted(missing), _KEEP, space=space)
        finally:
            # git would ask the server for each object that is not here, one by one.
            (copy / "config").write_bytes(self._settings)
        self._kept |= missing

    def _reached_commits(self, owners: frozenset[str]) -> frozenset[str]:
        """Those of the wanted commits that ``owners`` lead to; what is no commit leads to none."""
        lines = "".join(f"{each}\n" for each in sorted(owners)).encode()
        kinds = self._git.execute("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=lines, limit=_LIMIT)
        commits = b"".join(line.split()[0] + b"\n" for line in kinds.splitlines() if line.endswith(b" commit"))
        if not commits:
            return frozenset()
        reached = self._git.execute("rev-list", "--stdin", stdin=commits, limit=_LIMIT, timeout=600)
        return self._wanted.intersection(reached.decode("ascii", "replace").splitlines())


def _well_formed(name: str) -> bool:
    """Return whether git accepts the name: other names are no run branches."""
    try:
        check_full_ref(name)
    except MalformedError:
        return False
    return True
