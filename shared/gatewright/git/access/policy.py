"""``repositories.json``: by place, which credential reads, pushes and signs, and how its server is known. It holds no key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.vocabulary import Person
from gatewright.errors import MalformedError
from gatewright.git.access.repository_patterns import EVERYTHING, check_pattern, check_ref_pattern, covers_address
from gatewright.git.refs import Source
from gatewright.policy_files import EnvironmentKey, KeyReference, PolicyFile, PolicyModel

#: The accessing role: a service, or a person's command line (``operator``).
AccessRole = Literal["gatekeeper", "pm", "techlead", "worker", "reviewer", "testrunner", "operator"]
Purpose = Literal["read", "push"]
#: The roles that may push; policies cannot add others.
PUSHING: Final[frozenset[AccessRole]] = frozenset({"gatekeeper", "operator"})
#: ssh expands tokens and variables in the names of files, and splits them at blanks.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+@=-")
_USER = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$"
#: The operator's own text: an SSH key as one line of a file of public keys, an OpenPGP key id or fingerprint.
_PUBLIC_KEY = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/=]{16,4000}( [ -~]{0,200})?")  # noqa: TID251 - bounded
_KEY_ID = re.compile(r"(0x)?[0-9A-Fa-f]{16,64}!?")  # noqa: TID251 - bounded
#: Variables of this prefix are given to every role, so that none of them may hold a credential.
_OF_ALL_ROLES = "GATEWRIGHT_"


def _plain_file(path: Path) -> Path:
    if not path.is_absolute() or not _PLAIN.issuperset(str(path)):
        raise ValueError("name the file by its absolute path, in letters, digits and _ . / + @ = -")
    return path


def _own_variable(key: KeyReference) -> KeyReference:
    if isinstance(key, EnvironmentKey) and key.environment.upper().startswith(_OF_ALL_ROLES):
        raise ValueError(f"a variable that begins with {_OF_ALL_ROLES} reaches every role: choose another name for it")
    return key


def _checked(check: Callable[[str], str], pattern: str) -> str:
    try:
        return check(pattern)
    except MalformedError as error:
        raise ValueError(error.message) from None


PlainFile = Annotated[Path, AfterValidator(_plain_file)]
SecretKey = Annotated[KeyReference, AfterValidator(_own_variable)]
RepositoryPattern = Annotated[str, AfterValidator(partial(_checked, check_pattern))]
RefPattern = Annotated[str, AfterValidator(partial(_checked, check_ref_pattern))]


class RepositoryCredential(PolicyModel):
    """Exactly one of: ``token``, sent to https servers as the password of ``user``; ``key_file``, a private key for ssh;
    ``agent``, the account's own ssh agent and keys."""

    token: SecretKey | None = None
    user: str = Field(default="x-access-token", pattern=_USER)
    key_file: PlainFile | None = None
    agent: bool = False

    @model_validator(mode="after")
    def _one(self) -> RepositoryCredential:
        if [self.token is not None, self.key_file is not None, self.agent].count(True) != 1:
            raise ValueError("a credential is exactly one of token, key_file and agent")
        return self

    @property
    def protocol(self) -> str:
        return "https" if self.token is not None else "ssh"


class ReadCredential(RepositoryCredential):
    """``roles`` are those that read with it; all of them by default."""

    roles: tuple[AccessRole, ...] = get_args(AccessRole)


class HttpProxy(PolicyModel):
    """The proxy for https servers. ``password`` is that of ``user``."""

    url: str = Field(max_length=2000)
    user: str | None = Field(default=None, pattern=_USER)
    password: SecretKey | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        parts = urlsplit(url)
        plain = parts.hostname and not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
        if parts.scheme not in {"http", "https"} or not plain:
            raise ValueError("a proxy is http(s)://HOST[:PORT], without a user: use `user` and `password`")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _check_credentials(self) -> HttpProxy:
        if (self.user is None) != (self.password is None):
            raise ValueError("`user` and `password` of a proxy go together")
        return self


class Committer(PolicyModel):
    """The committer of signed commits: servers verify a commit only if the address belongs to the key."""

    name: str
    email: str

    @model_validator(mode="after")
    def _check_one_line(self) -> Committer:
        if commit_author(self.name, self.email) != Person(name=self.name, email=self.email):
            raise ValueError("name and address of a committer are one line each, without angle brackets")
        return self


class CommitSigning(PolicyModel):
    """The key that signs landed commits: ``key_file``, a private SSH key without a passphrase, or ``key`` of an ``agent``.

    ``key`` is a public SSH key as in ``id_ed25519.pub``, or the id of an OpenPGP key in the keyring of the account.
    """

    format: Literal["ssh", "openpgp"]
    key_file: PlainFile | None = None
    agent: bool = False
    key: str | None = Field(default=None, max_length=4096)
    committer: Committer | None = None

    @model_validator(mode="after")
    def _one_key(self) -> CommitSigning:
        if (self.key_file is not None) == self.agent or (self.key is not None) != self.agent:
            raise ValueError("a signing key is either key_file, or agent with key")
        if self.key_file is not None and self.format == "openpgp":
            raise ValueError("an OpenPGP key is in the keyring of the account: use agent and key")
        form = _PUBLIC_KEY if self.format == "ssh" else _KEY_ID
        if self.key is not None and form.fullmatch(self.key) is None:
            raise ValueError("key is a line TYPE BASE64 of a public SSH key, or an OpenPGP key id of 16 to 64 digits")
        return self


class RepositoryEntry(PolicyModel):
    """The access to the repositories at ``places`` and below them, and the signatures of commits there.

    ``known_hosts`` and ``ca_file`` are the only trust in their servers; without them the host's own apply. ``signatures``:
    the repository refuses unsigned commits.
    """

    places: tuple[RepositoryPattern, ...] = Field(min_length=1)
    read: ReadCredential | None = None
    push: RepositoryCredential | None = None
    known_hosts: PlainFile | None = None
    ca_file: PlainFile | None = None
    proxy: HttpProxy | None = None
    sign: CommitSigning | None = None
    signatures: Literal["required"] | None = None

    @model_validator(mode="after")
    def _fitting(self) -> RepositoryEntry:
        """Refuse a credential for a place it would not be sent to, and a token or key for all places.

        A place on this host needs no credential, so an entry for it is about signatures.
        """
        if self.sign is None and self.signatures is None and not all(map(protocols_of, self.places)):
            raise ValueError("a place is on another host: https://HOST/..., ssh://USER@HOST/... or USER@HOST:...")
        for credential in (self.read, self.push):
            if credential is None:
                continue
            if EVERYTHING in self.places and not credential.agent:
                raise ValueError("a token or a key is for places with a host, not for *")
            self._fits(credential.protocol, "this credential")
        if self.known_hosts is not None:
            self._fits("ssh", "known_hosts")
        if self.ca_file is not None or self.proxy is not None:
            self._fits("https", "ca_file or proxy")
        return self

    def _fits(self, protocol: str, what: str) -> None:
        for place in self.places:
            if protocol not in protocols_of(place):
                raise ValueError(f"{what} is for {protocol}, and {place} is not reached by it")

    def credential(self, purpose: Purpose) -> RepositoryCredential | None:
        return self.read if purpose == "read" else self.push

    def keys(self, role: str) -> Iterator[KeyReference]:
        """The references to keys that ``role`` has a use for."""
        if self.read is not None and self.read.token is not None and role in self.read.roles:
            yield self.read.token
        if self.push is not None and self.push.token is not None and role in PUSHING:
            yield self.push.token
        if self.proxy is not None and self.proxy.password is not None:
            yield self.proxy.password


class RepositoriesPolicy(PolicyModel):
    """The first entry that covers an address holds for it."""

    # A token that was written into the file by mistake is not repeated in a message.
    model_config = ConfigDict(hide_input_in_errors=True)

    version: Literal["1"]
    repositories: tuple[RepositoryEntry, ...]

    def entry(self, source: Source) -> RepositoryEntry | None:
        """Return the entry for a repository of another host."""
        return next((each for each in self.repositories if covers_address(source.address, each.places)), None)

    def variables(self, role: str) -> frozenset[str]:
        """The names of the variables that hold keys for ``role``, and of the one that locates a keyring that it signs from."""
        keys: Iterable[KeyReference] = (key for each in self.repositories for key in each.keys(role))
        signs = role in PUSHING and any(each.sign and each.sign.format == "openpgp" for each in self.repositories)
        return frozenset(
            {key.environment for key in keys if isinstance(key, EnvironmentKey)} | ({"GNUPGHOME"} if signs else set())
        )


NO_CREDENTIALS: Final = RepositoriesPolicy(version="1", repositories=())
REPOSITORIES_FILE: Final = PolicyFile("repositories.json", RepositoriesPolicy, default=lambda: NO_CREDENTIALS)


def protocols_of(pattern: str) -> tuple[str, ...]:
    """The protocols by which a place on another host is reached."""
    if pattern == EVERYTHING:
        return ("https", "ssh")
    scheme = pattern.partition("://")[0] if "://" in pattern else "file" if pattern.startswith("/") else "ssh"
    return (scheme,) if scheme in {"https", "ssh"} else ()
