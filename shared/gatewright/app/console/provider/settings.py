"""The operator's file about sign-in: the provider, what this console is called there, which of its claims give which role."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from gatewright.app.console.access_check import SignedInPerson
from gatewright.app.console.roles import CONSOLE_ROLES, ConsoleRole
from gatewright.app.http_access import is_loopback, read_private_text
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.strict_json import parse
from gatewright.errors import ConfigurationError, MalformedError

#: Path of the provider's redirect, below the address of the console.
RETURN_PATH = "/sign-in/return"
_MOST_BYTES = 65_536
#: Characters of the name of a person.
_LONGEST_PERSON = 320

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class ProviderFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings file. ``roles``: the role for each value of the claim ``role_claim``.

    ``console``: the public address of this console, as registered at the provider. ``client_secret_file``: relative to this
    file unless absolute; without one the console is a public client, by PKCE alone. ``ca_file``: certificates to trust for
    the provider instead of those of this host. ``session_seconds``: how long a sign-in is valid. ``person_claim``: the
    claim that names a person as in the roster of approvers; without it a verified ``email``.
    """

    version: Literal["1"]
    issuer: _Text
    client_id: _Text
    console: _Text
    role_claim: _Text
    roles: Annotated[dict[_Text, Literal["viewer", "approver", "operator"]], msgspec.Meta(min_length=1, max_length=1000)]
    client_secret_file: _Text | None = None
    ca_file: _Text | None = None
    scopes: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=20)] = ("openid", "profile", "email")
    session_seconds: Annotated[int, msgspec.Meta(ge=60, le=43_200)] = 28_800
    person_claim: _Text | None = None


class ProviderSettings(msgspec.Struct, frozen=True):
    """The file as it counts: ``secret`` read, ``ca_file`` a path."""

    file: ProviderFile
    secret: str | None = None
    ca_file: Path | None = None

    @property
    def return_address(self) -> str:
        """Return the redirect address to register for this client."""
        return self.file.console.rstrip("/") + RETURN_PATH

    @property
    def console_host(self) -> str:
        """Return the value of ``Host`` on people's return."""
        return urlsplit(self.file.console).netloc

    @property
    def host(self) -> str:
        """Return the provider's host name for people."""
        return urlsplit(self.file.issuer).netloc


def is_private_way(address: str) -> bool:
    """Return whether the connection to an address is protected: TLS, or this host's loopback."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.fragment)
    return plain and bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def read_provider(path: Path) -> ProviderSettings:
    """Return the settings of the file. Raises ConfigurationError, also for unprotected addresses."""
    try:
        with path.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigurationError(f"{path} is longer than {_MOST_BYTES} bytes", code="configuration_invalid")
        file = msgspec.convert(parse(data), ProviderFile)
    except (OSError, MalformedError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"{path} does not describe a sign-in provider: {error}", code="configuration_invalid"
        ) from error
    for name, address in (("issuer", file.issuer), ("console", file.console)):
        if not is_private_way(address) or urlsplit(address).query:
            words = f"{path}: {name} has to be an https address (http on this host's loopback alone), without a query"
            raise ConfigurationError(words, code="configuration_invalid")
    if urlsplit(file.console).path not in ("", "/"):
        raise ConfigurationError(f"{path}: console has to be an address without a path", code="configuration_invalid")
    if "openid" not in file.scopes:
        raise ConfigurationError(f"{path}: scopes have to name openid", code="configuration_invalid")
    secret = read_private_text(path.parent / file.client_secret_file) if file.client_secret_file is not None else None
    if secret is not None and not secret:
        raise ConfigurationError(f"{file.client_secret_file} is empty", code="configuration_invalid")
    ca_file = path.parent / file.ca_file if file.ca_file is not None else None
    if ca_file is not None and not ca_file.is_file():
        raise ConfigurationError(f"{ca_file} is no file of certificates", code="configuration_invalid")
    return ProviderSettings(file, secret, ca_file)


def role_of(claims: Mapping[str, Any], file: ProviderFile) -> ConsoleRole | None:
    """Return the highest role of a person's claims; None without one. A claim that is no text or list of texts has no
    effect."""
    claim = claims.get(file.role_claim)
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    found = {file.roles[value] for value in values if isinstance(value, str) and value in file.roles}
    return max(found, key=CONSOLE_ROLES.index) if found else None


def person_of(claims: Mapping[str, Any], settings: ProviderSettings) -> SignedInPerson | None:
    """Return the person of these claims; None without a trustworthy claim.

    1. ``person_claim``, which the operator trusts, or else an ``email`` that the provider has verified  2. ``sub``, unique
    to the person at this provider. A claim that is no text, or longer than a name, names no person.
    """
    verified = claims.get("email_verified") is True
    named = claims.get(settings.file.person_claim or "email")
    if settings.file.person_claim is None and not verified:
        return None
    if not isinstance(named, str) or not named.strip() or len(named) > _LONGEST_PERSON:  # 1
        return None
    subject = f"{claims['sub']}@{settings.host}"  # 2
    name, email = claims.get("name"), claims.get("email") if verified else None
    names = dict.fromkeys(each for each in (named, email, subject) if isinstance(each, str) and len(each) <= _LONGEST_PERSON)
    address = next((each for each in (named, email) if isinstance(each, str) and "@" in each), subject)
    shown = name if isinstance(name, str) and name.strip() else named
    return SignedInPerson(tuple(names), commit_author(shown[:_LONGEST_PERSON], address))
