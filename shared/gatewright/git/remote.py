"""The repository of a mirror, accessed through git: list its refs, fetch commits, move or delete one ref.

A local repository's configuration, hooks and files may be hostile. Gatewright starts the serving program (``upload-pack``,
``receive-pack``) itself, with settings that override the repository's own, after a check for planted files, and with write
access to that repository only. For ``https`` and ``ssh`` the server runs its own programs on its own host (``git.access``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from gatewright.confinement import CONFINED, run_confined
from gatewright.errors import DeniedError, GitError, SandboxError
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.access.refusals import TOO_LARGE, refusal
from gatewright.git.access.remote_git import RemoteGit, limit_words
from gatewright.git.access.signing import CommitSigner, make_signer
from gatewright.git.command import CommandFailedError, GitCommand, remote_command
from gatewright.git.host.damage import PARTIAL, damage, is_partial
from gatewright.git.host.local_repository import LocalRepository, find_repository
from gatewright.git.host.owner import as_owner
from gatewright.git.host.planted_links import PlantedLinks
from gatewright.git.host.run_refs import make_ref
from gatewright.git.host.target_rules import NO_RULES, TargetRules, target_rules
from gatewright.git.host.work_trees import checked_out_at
from gatewright.git.refs import RUN_BRANCHES, Source, folder_names, is_object_id
from gatewright.host_errors import check_room

_OVER_THE_OWNER = {
    # The repository may belong to another user than this process; the settings below override that user's configuration.
    "safe.directory": "*",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
}
_SERVE = {
    **_OVER_THE_OWNER,
    "uploadpack.allowAnySHA1InWant": "true",
    # Send packed objects as they are. Searching for deltas among the others costs more than it saves; the maintenance of
    # mirrors does so later.
    "pack.window": "0",
}
#: A shallow repository (the checkout of many build servers) is accepted: trees are complete, history is not needed.
_FETCH = (
    "--quiet",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-prune",
    "--refmap=",
    "--update-shallow",
)
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
    # Start no log, and compare no object with a list in a file that the repository chooses (an error would quote its lines):
    # the objects come from a mirror that has checked each.
    "core.logAllRefUpdates": "false",
    "receive.fsckObjects": "false",
    "transfer.fsckObjects": "false",
    # A negative one would wait for ever for a lock that the repository brought along.
    "core.filesRefLockTimeout": "1000",
    "core.packedRefsTimeout": "1000",
    # ``updateInstead`` would change files of the owner's work tree, and run filters and hooks for it.
    "receive.denyCurrentBranch": "refuse",
    "receive.autogc": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
#: Sections of a configuration by which a repository refuses pushes: a size, refs that are hidden.
_REFUSING_SECTIONS = ("receive", "transfer")
_REJECTED = re.compile(rb"^!\t[^\t]*\t\[(?:remote )?rejected\] \((.*)\)$", re.MULTILINE)  # noqa: TID251 - linear: each try ends where the next one begins
#: The committer in a log that the repository already keeps: never a name that its own configuration chooses.
_COMMITTER = {"GIT_COMMITTER_NAME": "Gatewright", "GIT_COMMITTER_EMAIL": "gatewright@localhost"}
#: Messages of servers that require signed commits.
_SIGNED_ONLY = (
    *("verified signature", "must be signed", "not signed", "unsigned commit", "require signed", "requires signed"),
    *("signed with a gpg key", "without a valid signature", "signature is required"),
)
#: git's message about a missing ref.
_NO_REF = "not a valid ref"
#: The options of ``ls-remote`` for kinds of refs.
_KINDS = {"refs/heads/": "--heads", "refs/tags/": "--tags"}
_LIST_SECONDS = 120
_DELETE_SECONDS = 120
_LIST_LIMIT = 256 << 20


class Remote:
    """One repository, reached with ``git``. Every method blocks its thread. ``seconds`` bounds a transfer.

    ``access`` is this process's access to repositories of other hosts.
    """

    def __init__(self, git: GitCommand, source: Source, *, seconds: float, access: RepositoryAccess = NO_ACCESS) -> None:
        self._git = git
        self.source = self._source = source
        self._seconds = seconds
        self._access = access
        self._far = RemoteGit(git, source, access)
        # Without the variable, git enters the configured work tree, which a submodule may lack.
        serve = f"--upload-pack=GIT_WORK_TREE=/ {remote_command('upload-pack', _SERVE)}"
        self._serve = (serve,) if source.local else ()
        self._planted = PlantedLinks()

    def permits(self, source: Source) -> bool:
        """Return whether the operator's list has an entry for another repository."""
        return self._access.policy.entry(source) is not None

    def refs(self, *names: str) -> dict[str, str]:
        """Return full ref names with object ids; an annotated tag has a second entry, ``<name>^{}``, for its target.

        With ``names`` (full ones) only these. Raises GitError (``repository_unreadable``) if there is no repository, and
        the errors of ``RemoteGit.run`` and of ``PlantedLinks.refuse``.
        """
        try:
            if names and self._source.local:
                return self._read_refs(names)
            output = self._list_remote(*_only(names), "--end-of-options", self._looked_at(), *names)
        except CommandFailedError as error:
            cause = self._damage(error)
            newer = "; install a newer git on this host" if "unknown repository extension" in error.output else ""
            words = f"the repository cannot be read: {error.output}{newer}"
            raise cause or GitError(words, code="repository_unreadable") from error
        # ls-remote matches the ends of names: ``refs/x/refs/heads/main`` answers to ``refs/heads/main``.
        wanted = {*names, *(f"{name}^{{}}" for name in names)}
        found = dict(_ref_lines(output))
        return {name: found[name] for name in found if not names or name in wanted}

    def object_format(self) -> str:
        """Return ``sha1`` or ``sha256``, by the length of the ref ids. Raises GitError (``repository_empty``), and as
        ``refs``."""
        found = self.refs()
        if not found:
            raise GitError("the repository has no commit yet", code="repository_empty")
        return "sha256" if len(next(iter(found.values()))) == 64 else "sha1"

    def branches_and_tags(self) -> dict[str, str]:
        """Return all branches and tags as ``refs`` does; other refs may be merge requests of many years."""
        try:
            output = self._list_remote(*_KINDS.values(), "--end-of-options", self._looked_at())
        except CommandFailedError as error:
            raise GitError(f"the repository cannot be read: {error.output}", code="repository_unreadable") from error
        return dict(_ref_lines(output))

    def _read_refs(self, names: tuple[str, ...]) -> dict[str, str]:
        """Refs of a repository on this host, each opened by its name: a listing opens every one that there is."""
        git = GitCommand(self._find(writing=False, refs=names).git_dir)

        def read(_how: str) -> dict[str, str]:
            found: dict[str, str] = {}
            for name in names:
                try:
                    words = ("show-ref", "--verify", "--dereference", "--", name)
                    output = git.execute(*words, timeout=_LIST_SECONDS, limit=_LIST_LIMIT)
                except CommandFailedError as error:
                    if _NO_REF not in error.output:
                        raise
                else:
                    found |= _ref_lines(output.replace(b" ", b"\t"))
            return found

        return run_confined((), read)

    def fetch(self, object_id: str, ref: str, *, lock: int, space: int | None = None) -> None:
        """Fetch ``object_id`` with everything it needs into the mirror and let ``ref`` of the mirror hold it.

        Args:
            lock: the descriptor of the mirror's lock.
            space: largest transfer in bytes.

        Raises:
            GitError: ``ref_not_found`` (the repository does not provide the commit), ``repository_partial`` (a partial
                clone without files of the commit), and the errors of ``RemoteGit.run`` and ``PlantedLinks.refuse``.
        """
        try:
            self._fetch(object_id, ref, lock, space)
        except CommandFailedError as error:
            if (refused := refusal(self._source.address, error)) is not None and refused.reason == TOO_LARGE:
                self._remove_cut_off(space)
                raise refused from error
            if not (self._source.local and is_partial(error)):
                cause = self._damage(error)
                raise cause or GitError(f"{object_id} cannot be fetched: {error.output}", code="ref_not_found") from error
            self._fetch_from_partial(object_id, ref, lock, space)
        except GitError as error:
            if error.reason == TOO_LARGE:
                self._remove_cut_off(space)
            raise

    def _remove_cut_off(self, space: int | None) -> None:
        """Remove a pack that was cut off at its limit, recognised by its exact size, to free its space."""
        for path in (self._git.git_dir / "objects" / "pack").glob("tmp_pack_*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_size == space:
                    path.unlink()

    def _fetch_from_partial(self, object_id: str, ref: str, lock: int, space: int | None) -> None:
        """Fetch the checked-out part of a partial clone; nothing is requested from the remote that it names."""
        try:
            self._fetch(object_id, ref, lock, space, "--depth=1")
        except CommandFailedError as error:
            how = f"have them (git -C {self._source.address} archive --output=/dev/null {object_id}), or use a whole clone"
            raise GitError(
                f"{self._source.address} is a partial clone and lacks files of {object_id}; {how}", code=PARTIAL
            ) from error

    def _fetch(self, object_id: str, ref: str, lock: int, space: int | None, *depth: str) -> None:
        options = (*_FETCH, *depth, *self._serve, "--end-of-options", self._looked_at())
        words = ("fetch", *options, f"{object_id}:{ref}")
        if self._source.local:
            mirror = (self._git.git_dir,)
            confinement = () if space is None else limit_words(file=space)
            run_confined(
                mirror, lambda _how: self._git.execute(*words, timeout=self._seconds, pass_fds=(lock,), confinement=confinement)
            )
        else:
            self._far.run("read", *words, timeout=self._seconds, pass_fds=(lock,), space=space)

    def fetch_histories(self, object_ids: Collection[str], below: str, *, space: int) -> None:
        """Fetch these commits and tags with their full history from a repository of another host.

        A ref named by its id ``below`` keeps each. Files are included if the server cannot omit them. The caller must undo
        what the fetch writes into the configuration about that. Raises GitError (``ref_not_found``), and as ``fetch``.
        """
        wanted = "".join(f"{object_id}:{below}{object_id}\n" for object_id in object_ids)
        words = ("fetch", *_FETCH, "--filter=tree:0", "--stdin", "--end-of-options", self._source.address)
        try:
            self._far.run("read", *words, timeout=self._seconds, space=space, stdin=wanted.encode())
        except CommandFailedError as error:
            raise GitError(f"the branches cannot be fetched: {error.output}", code="ref_not_found") from error

    def delete(self, ref: str, *, expected: str) -> None:
        """Delete ``ref`` in a repository of another host, if it is still at ``expected``; a missing ref is a success.

        If the answer is lost or late, the ref is checked there: the deletion may have happened. Raises GitError:
        ``ref_moved``, ``deletion_refused`` (with the repository's message), and the errors of ``RemoteGit.run``.
        """
        options = (
            "--porcelain",
            "--no-verify",
            "--no-signed",
            "--recurse-submodules=no",
            f"--force-with-lease={ref}:{expected}",
        )
        words = ("push", *options, "--end-of-options", self._source.address, f":{ref}")
        try:
            self._far.run("push", *words, timeout=min(_DELETE_SECONDS, self._seconds))
        except GitError as error:
            self._explain_left(ref, expected, error)

    def _explain_left(self, ref: str, expected: str, error: GitError) -> None:
        """Return if the ref is gone after all; else raise the reason, as far as the server reports it."""
        try:
            current = self.refs(ref).get(ref)
        except (GitError, DeniedError):
            raise error from None
        if current is None:
            return
        if current != expected:
            raise GitError(f"{ref} is at {current} by now: make the plan again", code="ref_moved") from error
        rejected = _REJECTED.search(error.stdout) if isinstance(error, CommandFailedError) else None
        if rejected is None or not isinstance(error, CommandFailedError):
            raise error
        words = f"the repository keeps {ref}: {rejected[1].decode('utf-8', 'replace')[:200]!a}"
        raise GitError(f"{words}; its message: {error.output}", code="deletion_refused") from error

    def push(self, commit: str, ref: str, *, expected: str | None) -> None:
        """Move ``ref`` from ``expected`` (None: it must not exist) to ``commit``, or not at all; an unchanged ref is a
        success.

        If another host's answer is lost or late, the ref is checked there: the push may have happened.

        Raises:
            GitError: ``landing_conflict`` (the ref is elsewhere), ``target_checked_out``, ``target_not_confined``,
                ``ref_in_the_way``, ``landing_refused`` and ``landing_unsigned`` (with the repository's message), and the
                    errors of
                ``RemoteGit.run``, ``PlantedLinks.refuse`` and ``TargetRules.refuse``.
        """
        lease = f"--force-with-lease={ref}:{expected or ''}"
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", lease)
        words = ("push", *options, *self._receive(ref), "--end-of-options")
        try:
            if self._source.local:
                if expected is None and self._make_ref(commit, ref):
                    return
                self._push_into(self._find(writing=True), *words, refspec=f"{commit}:{ref}")
            else:
                self._far.run("push", *words, self._source.address, f"{commit}:{ref}", timeout=self._seconds)
        except GitError as error:
            if self._source.local:
                check_room(Path(self._source.address))  # a server's message about its disk must not be taken for one of ours
            rejected = _REJECTED.search(error.stdout) if isinstance(error, CommandFailedError) else None
            if rejected is not None and isinstance(error, CommandFailedError):
                self._explain(rejected[1], commit, ref, expected, error)
            elif self._source.local or not self._has_landed(commit, ref):
                raise

    def _has_landed(self, commit: str, ref: str) -> bool:
        """Return whether a failed push reached the server; False if the server cannot be queried."""
        try:
            return self.refs(ref).get(ref) == commit
        except (GitError, DeniedError):
            return False

    def signs(self) -> bool:
        """Return whether landed commits are signed for the repository."""
        return self._access.signing(self._source) is not None

    def signer(self) -> CommitSigner | None:
        """Return how they are signed. Raises GitError (``commit_signing_unavailable``)."""
        signing = self._access.signing(self._source)
        return make_signer(signing) if signing is not None else None

    def demands_signatures(self) -> bool:
        """Return whether the operator declared that the repository refuses unsigned commits."""
        return self._access.demands_signatures(self._source)

    def target_rules(self) -> TargetRules:
        """The rules of the repository about pushes that are not applied from here. GitError."""
        return target_rules(self._find(writing=False)) if self._source.local else NO_RULES

    def checked_out(self, ref: str) -> Path | None:
        """Return the work tree in which the branch ``ref`` is checked out, if this host can determine it. Raises GitError."""
        return checked_out_at(self._find(writing=False).common, ref) if self._source.local else None

    def _receive(self, ref: str) -> tuple[str, ...]:
        """Return the option for receive-pack; the many run branches are hidden when another ref is moved."""
        if not self._source.local:
            return ()
        hidden = {} if ref.startswith(RUN_BRANCHES) else {"receive.hideRefs": RUN_BRANCHES}
        confinement = as_owner(find_repository(self._source.address))
        return (f"--receive-pack={remote_command('receive-pack', {**_RECEIVE, **hidden}, confinement)}",)

    def _make_ref(self, commit: str, ref: str) -> bool:
        """Create ``ref`` without reading any other ref; return False if that is impossible.

        ``receive-pack`` reads and lists every existing ref twice, so the cost of a landing would grow with the landings
        before it. It still handles every irregular case, and explains what it refuses.
        """
        repository = self._find(writing=True, refs=(ref, "HEAD"))
        target_rules(repository).refuse()
        if any(repository.may_configure(section) for section in _REFUSING_SECTIONS):
            return False  # what these refuse, and how, is known to ``receive-pack``
        target = GitCommand(repository.git_dir)

        def make(how: str) -> None:
            confinement = (*as_owner(repository), *(() if how == CONFINED else _read_only_but(repository.folders)))
            make_ref(
                self._git,
                target,
                commit,
                ref,
                settings=_RECEIVE,
                committer=_COMMITTER,
                confinement=confinement,
                timeout=self._seconds,
            )

        with repository.held() as folders:
            try:
                run_confined(folders, make)
            except CommandFailedError:
                return False
        return True

    def _push_into(self, repository: LocalRepository, *words: str, refspec: str) -> None:
        """Push with the right to write into the folders of ``repository`` alone, wherever its links lead by then."""
        target_rules(repository).refuse()

        def push(how: str) -> None:
            confinement = () if how == CONFINED else _read_only_but(repository.folders)
            self._git.execute(
                *words, str(repository.git_dir), refspec, timeout=self._seconds, environment=_COMMITTER, confinement=confinement
            )

        with repository.held() as folders:
            run_confined(folders, push)

    def _looked_at(self) -> str:
        """Return the address for git to read from, after a check for planted files."""
        return str(self._find(writing=False).git_dir) if self._source.local else self._source.address

    def _find(self, *, writing: bool, refs: tuple[str, ...] = ()) -> LocalRepository:
        """``refs``: git will open these alone."""
        repository = find_repository(self._source.address)
        try:
            self._planted.refuse(repository, writing=writing, refs=refs)
        except OSError as error:
            raise GitError(f"the repository cannot be read: {error}", code="repository_unreadable") from error
        return repository

    def _list_remote(self, *options: str) -> bytes:
        """Return the output of ``ls-remote``."""
        words, seconds = ("ls-remote", "--quiet", *self._serve, *options), min(_LIST_SECONDS, self._seconds)
        if not self._source.local:
            return self._far.run("read", *words, timeout=seconds, limit=_LIST_LIMIT)
        return run_confined((), lambda _how: self._git.execute(*words, timeout=seconds, limit=_LIST_LIMIT))

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
        if in_the_way := self._in_the_way(ref):
            words = f"{ref} cannot be made while {in_the_way} is there: git keeps one as a folder and the other as a file"
            raise GitError(words, code="ref_in_the_way") from error
        if wants_signatures(error.output):
            cause = (
                "does not accept the signature"
                if self.signs()
                else "accepts signed commits only, and this one has no signature"
            )
            words = f"the target {cause}; its message: {error.output}"
            raise GitError(words, code="landing_unsigned") from error
        words = f"the target refused {ref}: {reason.decode('utf-8', 'replace')[:200]!a}"
        raise GitError(f"{words}; its message: {error.output}", code="landing_refused") from error

    def _damage(self, error: CommandFailedError) -> GitError | None:
        """See ``damage``."""
        objects = find_repository(self._source.address).common / "objects" if self._source.local else None
        return damage(error, self._source.address, objects)

    def _in_the_way(self, ref: str) -> str | None:
        """Return an existing ref that is a folder of ``ref``, or below it."""
        above = frozenset(folder_names(ref))
        found = (name for name in self.branches_and_tags() if name in above or name.startswith(f"{ref}/"))
        return next(found, None)


def wants_signatures(message: str) -> bool:
    """Return whether a server's message requires signed commits, as GitHub, GitLab, Gitea and Bitbucket word it."""
    return any(words in message.lower() for words in _SIGNED_ONLY)


def _read_only_but(folders: tuple[Path, ...]) -> tuple[str, ...]:
    """Return a command prefix that allows writes to ``folders`` only, for a kernel without Landlock."""
    # Importing it takes a tenth of a second, and it is rarely needed.
    from gatewright.sandbox.binary import find_bwrap

    try:
        program = str(find_bwrap().path)
    except SandboxError as error:
        words = f"git cannot be kept inside of the target without Landlock (Linux 5.19) or bubblewrap: {error.message}"
        raise GitError(f"{words}; land in a repository that is reached by ssh or https", code="target_not_confined") from error
    binds = (word for folder in folders for word in ("--bind", str(folder), str(folder)))
    return (program, "--die-with-parent", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", *binds, "--")


def _only(names: tuple[str, ...]) -> Iterator[str]:
    """Yield options that keep a server from listing refs of other kinds (merge requests of many years)."""
    if names and all(name.startswith(tuple(_KINDS)) for name in names):
        yield from (option for prefix, option in _KINDS.items() if any(name.startswith(prefix) for name in names))


def _ref_lines(output: bytes) -> Iterator[tuple[str, str]]:
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        object_id, _, name = line.partition("\t")
        if name and is_object_id(object_id):
            yield name, object_id
