"""The repository that a mirror stands for, as git speaks to it: what its refs are, fetch one commit, move one ref.

A local repository's configuration and hooks may be hostile. What serves it (``upload-pack``, ``receive-pack``) is started by us
with settings that stand above its own; for ``https`` and ``ssh`` the other end runs its own programs on its own host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError, GitCommand, remote_command
from gatewright.git.refs import Source, is_object_id
from gatewright.host_errors import check_room

_OVER_THE_OWNER = {
    # The repository may belong to another user than this process; what that user configured is overruled below.
    "safe.directory": "*",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
}
_SERVE = {**_OVER_THE_OWNER, "uploadpack.allowAnySHA1InWant": "true"}
#: Hooks that a push can start in the receiving repository, and what it runs to tidy up.
_RECEIVE_EVENTS = (
    "pre-receive",
    "update",
    "proc-receive",
    "reference-transaction",
    "post-receive",
    "post-update",
    "push-to-checkout",
    "pre-auto-gc",
)
_RECEIVE = {
    **_OVER_THE_OWNER,
    # git 2.54 learned hooks that are configured instead of lying in a directory; ``core.hooksPath`` does not stop them.
    **{f"hook.{event}.enabled": "false" for event in _RECEIVE_EVENTS},
    "core.alternateRefsCommand": "true",
    # ``updateInstead`` would change files under someone's hands, and run filters and hooks for it.
    "receive.denyCurrentBranch": "refuse",
    "receive.autogc": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_REJECTED = re.compile(rb"^!\t[^\t]*\t\[(?:remote )?rejected\] \((.*)\)$", re.MULTILINE)
_LIST_SECONDS = 120
_LIST_LIMIT = 256 << 20


class Remote:
    """One repository, reached with ``git``. Every method blocks its thread. ``seconds`` bounds a transfer."""

    def __init__(self, git: GitCommand, source: Source, *, seconds: float) -> None:
        self._git = git
        self._source = source
        self._seconds = seconds
        self._serve = (f"--upload-pack={remote_command('upload-pack', _SERVE)}",) if source.local else ()
        self._receive = (f"--receive-pack={remote_command('receive-pack', _RECEIVE)}",) if source.local else ()

    def refs(self, *names: str) -> dict[str, str]:
        """Full ref names to object ids; an annotated tag has a second entry, ``<name>^{}``, for what it stands for.

        With ``names`` (full ones) only these. GitError (``repository_unreadable``) when there is no repository or no access.
        """
        try:
            output = self._git.execute(
                *("ls-remote", "--quiet", *self._serve, "--end-of-options", self._source.address, *names),
                timeout=_LIST_SECONDS,
                limit=_LIST_LIMIT,
            )
        except CommandFailedError as error:
            raise GitError(f"the repository cannot be read: {error.said}", code="repository_unreadable") from error
        # ls-remote matches the ends of names: ``refs/x/refs/heads/main`` answers to ``refs/heads/main``.
        wanted = {*names, *(f"{name}^{{}}" for name in names)}
        found = dict(_ref_lines(output))
        return {name: found[name] for name in found if not names or name in wanted}

    def fetch(self, object_id: str, ref: str, *, lock: int) -> None:
        """Bring ``object_id`` and all it needs into the mirror and let ``ref`` of the mirror hold it.

        ``lock`` is the descriptor of the mirror's lock. GitError (``ref_not_found``) when the repository does not give it.
        """
        quiet = (
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-prune",
        )
        # A shallow repository (every other build server's checkout) is served as it is: trees are whole, history is not needed.
        options = (*quiet, "--refmap=", "--update-shallow", *self._serve, "--end-of-options")
        try:
            self._git.execute(
                "fetch", *options, self._source.address, f"{object_id}:{ref}", timeout=self._seconds, pass_fds=(lock,)
            )
        except CommandFailedError as error:
            raise GitError(f"{object_id} cannot be fetched: {error.said}", code="ref_not_found") from error

    def push(self, commit: str, ref: str, *, expected: str | None) -> None:
        """Move ``ref`` from ``expected`` (None: it must not exist) to ``commit``, or not at all; nothing to do is a success.

        GitError: ``landing_conflict`` (the ref is elsewhere), ``target_checked_out``, ``target_has_hooks`` or
        ``landing_refused`` (with the repository's words).
        """
        self._refuse_configured_hooks()
        lease = f"--force-with-lease={ref}:{expected or ''}"
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", lease)
        try:
            self._git.execute(
                "push",
                *options,
                *self._receive,
                "--end-of-options",
                self._source.address,
                f"{commit}:{ref}",
                timeout=self._seconds,
            )
        except CommandFailedError as error:
            if self._source.local:
                check_room(Path(self._source.address))  # what the other end says of its disk is said of one of ours
            rejected = _REJECTED.search(error.stdout)
            if rejected is None:
                raise
            self._explain(rejected[1], commit, ref, expected, error)

    def _explain(self, reason: bytes, commit: str, ref: str, expected: str | None, error: CommandFailedError) -> None:
        """Return when the ref is where it should be after all; else raise what the rejection means."""
        if reason == b"branch is currently checked out":
            raise GitError(f"{ref} is checked out in the target; land on another branch", code="target_checked_out") from error
        current = self.refs(ref).get(ref)
        if current == commit:
            return
        if current != expected:
            raise GitError(
                f"{ref} is at {current or 'nothing'}, expected {expected or 'nothing'}", code="landing_conflict"
            ) from error
        raise GitError(
            f"the target refused {ref}: {reason.decode('utf-8', 'replace')[:200]!a}", code="landing_refused"
        ) from error

    def _refuse_configured_hooks(self) -> None:
        """Configured hooks can be switched off by event only from git 2.55 on, so a local target that has such is refused."""
        directory = _git_directory(Path(self._source.address)) if self._source.local else None
        if directory is None:
            return
        query = ("config", "--null", "--includes", "--get-regexp", r"^hook\..*\.event$")
        output = GitCommand(directory).execute(*query, ok=(0, 1))
        events = {record.partition(b"\n")[2].decode("utf-8", "replace") for record in output.split(b"\0")}
        if events & set(_RECEIVE_EVENTS):
            raise GitError("the target configures hooks that a push would run on this host", code="target_has_hooks")


def _git_directory(path: Path) -> Path | None:
    """The git directory that ``upload-pack`` and ``receive-pack`` find for ``path`` (git's ``enter_repo``), None for none."""
    for ending in ("/.git", "", ".git/.git", ".git"):
        directory = Path(f"{path}{ending}")
        if directory.is_file() or (directory / "HEAD").exists():
            return directory
    return None


def _ref_lines(output: bytes) -> Iterator[tuple[str, str]]:
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        object_id, _, name = line.partition("\t")
        if name and is_object_id(object_id):
            yield name, object_id
