"""Access of a role to one repository, resolved when git is about to start, and passing of the credentials to git.

A token reaches git through a memory file that its processes inherit and our credential helper reads. It is never an
argument, a variable of git, or a part of an address. Messages of a server that contain it are redacted.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from gatewright.errors import ConfigurationError, DeniedError, GitError
from gatewright.git.access import credential_helper
from gatewright.git.access.policy import (
    NO_CREDENTIALS,
    PUSHING,
    REPOSITORIES_FILE,
    AccessRole,
    CommitSigning,
    Purpose,
    RepositoriesPolicy,
    RepositoryCredential,
    RepositoryEntry,
)
from gatewright.git.host.identity import real_place
from gatewright.git.host.user_checkout import UserSigning
from gatewright.git.refs import Source
from gatewright.own_interpreter import loader_words
from gatewright.policy_files import KeyOwner, KeyReference

MISSING: Final = "repository_credentials_missing"
NOT_FOR_ROLE: Final = "repository_role_not_allowed"
_OWNER = KeyOwner(f"the repository ({REPOSITORIES_FILE})", MISSING)
_NO_PROXIES = dict.fromkeys(("no_proxy", "NO_PROXY"), "")
_HIDDEN = b"[credential]"


@dataclass(frozen=True, slots=True)
class HelperAnswer:
    """A credential that the helper may give git, for one exact address."""

    protocol: str
    host: str
    path: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResolvedAccess:
    """The access of one git process to one repository: ``settings`` and variables of git, none of them secret, and
    ``answers``."""

    settings: Mapping[str, str]
    environment: Mapping[str, str]
    answers: tuple[HelperAnswer, ...] = ()

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Mapping[str, str], tuple[int, ...]]]:
        """The settings of git, and the descriptors that it has to inherit, for as long as it runs."""
        if not self.answers:
            yield self.settings, ()
            return
        descriptor = os.memfd_create("credentials", os.MFD_CLOEXEC)
        try:
            known = json.dumps([{name: getattr(each, name) for name in HelperAnswer.__slots__} for each in self.answers])
            os.write(descriptor, known.encode())
            helper = shlex.join([*loader_words(), sys.executable, "-I", "-S", credential_helper.__file__, str(descriptor)])
            yield {**self.settings, "credential.helper": f"!{helper}", "credential.useHttpPath": "true"}, (descriptor,)
        finally:
            os.close(descriptor)

    def without_credentials(self, output: bytes) -> bytes:
        """Return the output of git or a server with all forms of the credentials removed."""
        for each in self.answers:
            pair = f"{each.username}:{each.password}".encode()
            secret = each.password.encode()
            for form in (base64.b64encode(pair), base64.b64encode(secret).rstrip(b"="), secret, quote(secret, "").encode()):
                output = output.replace(form, _HIDDEN)
        return output


#: For repositories without an entry: access without credentials.
ANONYMOUS: Final = ResolvedAccess({}, {})


@dataclass(frozen=True, slots=True)
class RepositoryAccess:
    """The policy as it applies to ``role``. Keys are read for every git process, because they can be replaced at any time."""

    policy: RepositoriesPolicy
    role: AccessRole
    #: How the user's git signs in the user's repository, for the gatekeeper of the user's own stack.
    user: UserSigning | None = None

    @classmethod
    def load(cls, folder: Path, role: AccessRole) -> RepositoryAccess:
        """Raises ConfigurationError naming the file and the place."""
        return cls(REPOSITORIES_FILE.load(folder).policy, role)

    def resolve(self, source: Source, purpose: Purpose) -> ResolvedAccess:
        """Return the access to a repository of another host.

        Raises DeniedError (``repository_role_not_allowed``), GitError (``repository_credentials_missing``).
        """
        entry = self.policy.entry(source)
        credential = entry.credential(purpose) if entry is not None else None
        if purpose == "push" and self.role not in PUSHING:
            raise self._refuse_source(source, purpose)
        if purpose == "read" and entry is not None and entry.read is not None and self.role not in entry.read.roles:
            raise self._refuse_source(source, purpose)
        if source.protocol == "ssh":
            return self._by_ssh(source, entry, credential, purpose)
        if purpose == "push" and entry is not None and credential is None and entry.read is not None:
            raise _missing_credential(source, purpose)
        return _by_https(source, entry, credential)

    def signing(self, source: Source) -> CommitSigning | UserSigning | None:
        """Return the key that signs commits for a repository; None for unsigned ones, and for a role that never lands."""
        if self.role not in PUSHING:
            return None
        entry = self.policy.entry(source)
        if entry is not None and entry.sign is not None:
            return entry.sign
        own = self.user is not None and source.local and str(real_place(source.address)) == self.user.repository
        return self.user if own else None

    def demands_signatures(self, source: Source) -> bool:
        """Return whether the operator declared that the repository refuses unsigned commits."""
        entry = self.policy.entry(source)
        return entry is not None and entry.signatures == "required"

    def _refuse_source(self, source: Source, purpose: Purpose) -> DeniedError:
        words = f"the {self.role} may not {purpose} {source.address}: {REPOSITORIES_FILE} has no credential for it"
        return DeniedError(words, code=NOT_FOR_ROLE)

    @staticmethod
    def _by_ssh(
        source: Source, entry: RepositoryEntry | None, credential: RepositoryCredential | None, purpose: Purpose
    ) -> ResolvedAccess:
        if entry is None or credential is None or credential.protocol != "ssh":
            raise _missing_credential(source, purpose)
        if credential.key_file is not None and not os.access(credential.key_file, os.R_OK):
            raise GitError(f"the key {credential.key_file} of {source.address} cannot be read", code=MISSING)
        settings = {"core.sshCommand": ssh_command(credential, entry.known_hosts), "ssh.variant": "ssh"}
        return ResolvedAccess(settings, {} if credential.agent else {"SSH_AUTH_SOCK": ""})


#: Access without any policy.
NO_ACCESS: Final = RepositoryAccess(NO_CREDENTIALS, "operator")


def _by_https(source: Source, entry: RepositoryEntry | None, credential: RepositoryCredential | None) -> ResolvedAccess:
    if entry is None:
        return ANONYMOUS
    settings: dict[str, str] = {}
    environment: dict[str, str] = {}
    answers: list[HelperAnswer] = []
    if credential is not None and credential.token is not None:
        where = urlsplit(source.address)
        password = _read_key(credential.token)
        answers.append(HelperAnswer("https", where.netloc, where.path.strip("/"), credential.user, password))
    if entry.ca_file is not None:
        # These variables override git's settings, and the host's authorities would be trusted besides a single file.
        environment |= {"GIT_SSL_CAINFO": str(entry.ca_file), "GIT_SSL_CAPATH": "/dev/null"}
    if entry.proxy is not None:
        where = urlsplit(entry.proxy.url)
        user = f"{quote(entry.proxy.user, safe='')}@" if entry.proxy.user is not None else ""
        settings["http.proxy"] = f"{where.scheme}://{user}{where.netloc}"
        environment |= _NO_PROXIES
        if entry.proxy.user is not None and entry.proxy.password is not None:
            password = _read_key(entry.proxy.password)
            answers.append(HelperAnswer(where.scheme, where.netloc, "", entry.proxy.user, password))
    return ResolvedAccess(settings, environment, tuple(answers))


def _read_key(key: KeyReference) -> str:
    """Return the current key. A task that lacks one may find it when it is retried."""
    try:
        return key.read(_OWNER)
    except ConfigurationError as error:
        raise GitError(error.message, code=error.reason) from None


def _missing_credential(source: Source, purpose: Purpose) -> GitError:
    words = f"{REPOSITORIES_FILE} has no credential to {purpose} {source.address} with by {source.protocol}"
    return GitError(words, code=MISSING)


# The ssh command for git: no configuration file, one identity, known hosts only, and no prompts.
_ALWAYS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",
    "ControlPath": "none",
    "ConnectTimeout": "30",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
}


def ssh_command(credential: RepositoryCredential, known_hosts: Path | None) -> str:
    """Return the value of ``core.sshCommand``. A shell splits it, so every word is quoted; none is a secret."""
    options = dict(_ALWAYS)
    if credential.key_file is not None:
        options |= {"IdentitiesOnly": "yes", "IdentityFile": str(credential.key_file), "IdentityAgent": "none"}
    if known_hosts is not None:
        options |= {"UserKnownHostsFile": str(known_hosts), "GlobalKnownHostsFile": "/dev/null"}
    words = (word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    # The configuration of the account, and of the host, could run commands and lead to another server.
    return shlex.join(["ssh", "-F", "/dev/null", *words])
