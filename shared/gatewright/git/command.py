"""Execution of git with Gatewright's own configuration only: no inherited variables, no hooks, no shell.

Every git process of Gatewright starts here. Git reads a repository's own configuration only in commands that work on that
repository; the commands that must do so (fetch from it, push to it) are built in ``gatewright.git.remote``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from gatewright.errors import GitError, HostError
from gatewright.git.process import in_thread, run_to_end, start
from gatewright.git.transport import transport
from gatewright.host_errors import DISK_FULL, speaks_of_full_disk

#: The id of the empty tree in SHA-1 repositories; in others it does not resolve, which git takes for an empty tree too.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

#: The settings that make git run no programs and report true content. Each is passed as ``-c`` to every command.
HARDENED = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.ignoreCase": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "true",
    # From git 2.43 on, a bare repository may read attributes from a tree; a patch must not control how it is displayed.
    "attr.tree": _EMPTY_TREE,
    "credential.helper": "",
    # ssh reaches only repositories for which the operator's policy has a credential.
    "core.sshCommand": "false",
    "diff.external": "",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    # A repository is identified by its address, which credentials, mirrors and locks use. Kerberos tickets are never sent.
    "http.followRedirects": "false",
    "http.emptyAuth": "false",
    # Half the bytes for every index that is written: large repositories are made of little else here.
    "index.version": "4",
    "index.skipHash": "true",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "transfer.fsckObjects": "true",
    # Faults of old mail tools that public repositories are full of; none of them changes what a tree holds.
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "fetch.fsck.zeroPaddedFilemode": "ignore",
}


#: A file that cannot be there: of one that is there, even if it is empty, git prints that it is deprecated. git clears the
#: variable for what it starts in another repository, so it is set there as well.
NO_GRAFTS = "/dev/null/none"


class GitCommand:
    """git on one repository, ``git_dir``, which Gatewright owns. ``protocols`` are those that may connect to other
    repositories."""

    def __init__(self, git_dir: Path, *, protocols: tuple[str, ...] = ()) -> None:
        self.git_dir = git_dir
        self._environment = {
            "PATH": f"{Path(executable('git')).parent}:{os.defpath}",
            "HOME": "/dev/null",
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            # Grafts in info/grafts replace parents of commits: the judged history would differ from the real one.
            "GIT_GRAFT_FILE": NO_GRAFTS,
            # A partial clone fetches missing objects from a remote of its choice, with a command of its choice
            # (CVE-2024-32004).
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_ALLOW_PROTOCOL": ":".join(protocols),
            "GIT_DEFAULT_REF_FORMAT": "files",
            **transport(protocols).certificates,
        }
        self._protocols = protocols
        self._options = [f"--git-dir={git_dir}", "--no-pager"]
        for key, value in HARDENED.items():
            self._options += ["-c", f"{key}={value}"]

    async def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        ok: tuple[int, ...] = (0,),
        timeout: float = 120,  # noqa: ASYNC109  # the limit of the process, which must hold in a thread too
    ) -> bytes:
        """Run ``git <args>`` and return its standard output; see ``execute``."""
        return await in_thread(self.execute, *args, stdin=stdin, index=index, ok=ok, timeout=timeout)

    def execute(
        self,
        *args: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        ok: tuple[int, ...] = (0,),
        timeout: float = 120,
        environment: Mapping[str, str] | None = None,
        limit: int | None = None,
        pass_fds: tuple[int, ...] = (),
        confinement: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run ``git <args>`` in this thread and return its standard output.

        Args:
            index: a private index file.
            ok: the exit codes that are no failure.
            timeout: seconds.
            limit: largest output in bytes.
            confinement: a program, with its options, that starts git confined.
            settings: override those of every command; visible to everyone on the host.

        Raises:
            GitError: git failed (``git_failed``, with its output), or a code of ``run_to_end``.
            HostError: ``disk_full``: git reports that this host has no space.
        """
        variables = {**self._environment, **(environment or {})}
        if index is not None:
            variables["GIT_INDEX_FILE"] = str(index)
        more = [word for key, value in (settings or {}).items() for word in ("-c", f"{key}={value}")]
        argv = [*confinement, executable("git"), *self._options, *more, *args]
        surroundings = {**transport(self._protocols).kept, **variables}
        finished = run_to_end(argv, surroundings, stdin=stdin, timeout=timeout, limit=limit, pass_fds=pass_fds)
        if finished.status not in ok:
            if speaks_of_full_disk(finished.stderr):
                raise HostError(f"git {args[0] if args else ''} met a full disk: {words(finished.stderr)}", code=DISK_FULL)
            raise CommandFailedError(args[0] if args else "", finished.status, finished.stdout, finished.stderr)
        return finished.stdout

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        """``git <args>`` with pipes, for ``gatewright.git.kept``: it has to be ended. Raises GitError."""
        surroundings = {**transport(self._protocols).kept, **self._environment}
        return start([executable("git"), *self._options, *args], surroundings, stdin=True)


class CommandFailedError(GitError):
    """git ended with a failure. The message holds its output."""

    def __init__(self, command: str, status: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(f"git {command} failed ({status}): {words(stderr)}")
        self.command = command
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        self.output = words(stderr)

    def with_clean_words(self, clean: Callable[[bytes], bytes]) -> CommandFailedError:
        """Return the same failure with its output cleaned."""
        return CommandFailedError(self.command, self.status, clean(self.stdout), clean(self.stderr))


@cache
def executable(name: str) -> str:
    """The absolute path of a program. GitError (``git_missing``) when it is not on PATH."""
    found = shutil.which(name)
    if found is None:
        raise GitError(f"{name} is not on PATH", code="git_missing")
    return str(Path(found).absolute())


def remote_command(service: str, settings: Mapping[str, str], confinement: tuple[str, ...] = ()) -> str:
    """Return the ``--upload-pack`` or ``--receive-pack`` value that runs ``git <service>`` with these ``settings``.

    The settings override those of the repository. ``confinement`` is a program, with its options, that starts git. git
    passes this text to a shell, so every word is quoted; nothing in it comes from outside.
    """
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    return (
        f"GIT_GRAFT_FILE={NO_GRAFTS} {shlex.join([*confinement, executable('git'), '--no-replace-objects', *options, service])}"
    )


def words(output: bytes) -> str:
    """Return git's output on one line, cut to 1,000 characters and made printable: it may quote hostile names and servers."""
    lines = (line.strip() for line in output.decode("utf-8", "replace").splitlines())
    text = "; ".join(line for line in lines if line)[:1000]
    return "".join(char if char.isprintable() else "?" for char in text)
