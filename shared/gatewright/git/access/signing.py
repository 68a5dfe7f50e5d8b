"""Signatures of landed commits: which key signs for a repository, and how git and the signing program reach it.

git starts the program (``ssh-keygen`` or ``gpg``). Gatewright passes the name of a key and never reads one.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gatewright.contracts.vocabulary import Person
from gatewright.errors import GitError
from gatewright.git.access.policy import CommitSigning
from gatewright.git.host.user_checkout import UserSigning
from gatewright.git.transport import key_variables

UNAVAILABLE: Final = "commit_signing_unavailable"
#: Bytes of the signing program's output that a message quotes.
_QUOTED: Final = 400
#: Characters of a key's name that it shows.
_SHOWN: Final = 120
_PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {"ssh": ("gpg.ssh.program", "ssh-keygen"), "openpgp": ("gpg.program", "gpg")}


@dataclass(frozen=True, slots=True)
class CommitSigner:
    """The signatures of one repository.

    ``settings`` are git's, none of them secret. ``environment`` is all that the signing program sees of this process's
    variables. ``committer`` replaces Gatewright as the committer of signed commits.
    """

    key: str
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    committer: Person | None = None

    def refusal(self, output: str) -> GitError:
        """Return the error for a signature that failed with this output of git, which is printable."""
        return GitError(f"no commit can be signed with {self.key}: {output[:_QUOTED]}", code=UNAVAILABLE)


def make_signer(signing: CommitSigning | UserSigning) -> CommitSigner:
    """Return how git signs with this key.

    Raises:
        GitError: ``commit_signing_unavailable``; the program, the agent or the key file is missing, or other accounts can read
            the file.
    """
    if isinstance(signing, UserSigning):
        return _signer_of_user(signing)
    who = signing.committer
    committer = Person(name=who.name, email=who.email) if who is not None else None
    if signing.key_file is not None:
        _check_file(signing.key_file)
        return _make_signer(signing.format, str(signing.key_file), committer, {})
    key, variables = signing.key or "", key_variables(signing.format)
    if signing.format == "openpgp":
        return _make_signer("openpgp", key, committer, variables)
    if not variables:
        raise GitError(f"SSH_AUTH_SOCK names no agent that holds the SSH key {key[:_SHOWN]}", code=UNAVAILABLE)
    return _make_signer("ssh", f"key::{key}", committer, variables)


def _signer_of_user(signing: UserSigning) -> CommitSigner:
    if signing.fault:
        raise GitError(f"git signs your commits, and Gatewright cannot: {signing.fault}", code=UNAVAILABLE)
    variables = key_variables("ssh", "openpgp")  # a program of the user's choice may need any
    return _make_signer(signing.format, signing.key, signing.committer, variables, signing.program)


def _make_signer(
    kind: str, key: str, committer: Person | None, variables: Mapping[str, str], program: str = ""
) -> CommitSigner:
    """Return the signer. ``key``: as git's ``user.signingKey``. ``program``: in place of the usual one."""
    setting, usual = _PROGRAMS[kind]
    label = f"the {'SSH' if kind == 'ssh' else 'OpenPGP'} key {key.removeprefix('key::')[:_SHOWN] or 'of the committer'}"
    found = shutil.which(program or usual)
    if found is None:
        raise GitError(f"{program or usual} is not on PATH, so {label} signs nothing: install it", code=UNAVAILABLE)
    settings = {"gpg.format": kind, setting: str(Path(found).absolute())} | ({"user.signingKey": key} if key else {})
    return CommitSigner(label, settings, {**variables, "SSH_ASKPASS_REQUIRE": "never"}, committer)


def without_signer(commit: bytes) -> bytes:
    """Return the bytes of a commit without its committer and its signature, which is a header of several lines."""
    header, end, message = commit.partition(b"\n\n")
    kept, dropped = [], False
    for line in header.split(b"\n"):
        dropped = line.startswith((b"committer ", b"gpgsig ", b"gpgsig-sha256 ")) or (dropped and line.startswith(b" "))
        if not dropped:
            kept.append(line)
    return b"\n".join(kept) + end + message


def _check_file(file: Path) -> None:
    """Raise GitError unless the file is a key that no other account can read; the group of another owner's file may."""
    try:
        facts = file.stat()
    except OSError as error:
        raise GitError(f"the signing key {file} cannot be read: {error.strerror}", code=UNAVAILABLE) from None
    others = 0o077 if facts.st_uid == os.geteuid() else 0o007
    if not stat.S_ISREG(facts.st_mode) or not os.access(file, os.R_OK):
        raise GitError(f"the signing key {file} cannot be read: it is no file of this account", code=UNAVAILABLE)
    if stat.S_IMODE(facts.st_mode) & others:
        words = f"other accounts can read the signing key {file}: run chmod 600 {file}"
        raise GitError(words, code=UNAVAILABLE)
