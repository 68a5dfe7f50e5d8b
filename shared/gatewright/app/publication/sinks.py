"""``sinks.json``: where results may be published, which classes each sink takes, and by which credential and key.

Without the file nothing can be published. The access to S3 is that of ``stores.json``. A sink without TLS or with a private
address needs a signed exception that has not expired (``exceptions.py``). Addresses on this host need none.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from gatewright.errors import ConfigurationError, MalformedError, StoreError
from gatewright.evidence.store.address import StoreAddress, parse_store
from gatewright.evidence.store.policy import StoreEntry, StoresPolicy
from gatewright.policy_files import AbsolutePath, FileKey, KeyOwner, KeyReference, PolicyFile, PolicyModel

Class = Literal["internal", "restricted"]
_PREFIX: Final = r"^(?:[A-Za-z0-9_][A-Za-z0-9._=-]{0,127}(?:/[A-Za-z0-9_][A-Za-z0-9._=-]{0,127}){0,7})?$"


class SinkEntry(PolicyModel):
    """One sink.

    ``address``: ``s3://BUCKET``, ``https://HOST[:PORT][/PATH]`` or the absolute path of an existing folder, by ``kind``.
    ``prefix``: a path below it. ``credentials`` of a web server: the value of ``Authorization``, or a token. ``key``: file of
    the private key that signs, by default that of the home folder. One of ``exception_keys`` signed each of ``exceptions``.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    kind: Literal["s3", "http", "folder"]
    address: str = Field(min_length=1, max_length=2000)
    prefix: str = Field(default="", pattern=_PREFIX)
    classifications: tuple[Class, ...] = Field(min_length=1)
    credentials: KeyReference | None = None
    key: AbsolutePath | None = None
    ca_file: AbsolutePath | None = None
    max_bytes: int = Field(default=256 << 20, ge=1, le=1 << 31)
    exceptions: tuple[AbsolutePath, ...] = ()
    exception_keys: tuple[AbsolutePath, ...] = ()

    @model_validator(mode="after")
    def _address_form(self) -> Self:
        schemes = {"s3": ("s3://",), "http": ("http://", "https://"), "folder": ("/",)}[self.kind]
        if not self.address.startswith(schemes):
            raise ValueError(f"the address of a sink of kind {self.kind} begins with {' or '.join(schemes)}")
        if self.kind != "http" and (self.credentials is not None or self.ca_file is not None):
            raise ValueError("credentials and ca_file are for sinks of kind http; stores.json has those of S3")
        try:
            self.shown  # noqa: B018 - raises for an address that is none
        except StoreError as error:
            raise ValueError(error.message) from None
        return self

    @property
    def place(self) -> StoreAddress:
        """Return the address with the prefix; not for a folder. Raises StoreError."""
        return parse_store("/".join(each for each in (self.address.rstrip("/"), self.prefix) if each), any_http=True)

    @property
    def shown(self) -> str:
        """Return the address with the prefix. Raises StoreError."""
        return str(self.place) if self.kind != "folder" else str(Path(self.address) / self.prefix)

    def store(self, stores: StoresPolicy) -> StoreEntry:
        """Return the settings of its client; not for a folder."""
        entry = stores.entry(self.place)
        return entry if self.kind == "s3" else entry.model_copy(update={"ca_file": self.ca_file})

    def url(self, stores: StoresPolicy) -> str:
        """Return the address that requests go to; empty for a folder and for Amazon."""
        return self.address if self.kind == "http" else self.store(stores).endpoint or "" if self.kind == "s3" else ""

    def authorization(self) -> str:
        """Return the value of the header ``Authorization``; empty without credentials.

        Raises ConfigurationError (``sink_credentials_missing``; ``key_permissions`` if another account can read it).
        """
        if self.credentials is None:
            return ""
        path = self.credentials.file if isinstance(self.credentials, FileKey) else None
        if path is not None and path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigurationError(f"{path} can be read by others; chmod 600 it", code="key_permissions")
        value = self.credentials.read(KeyOwner(f"the sink {self.name}", "sink_credentials_missing"))
        return value if " " in value else f"Bearer {value}"


class SinksPolicy(PolicyModel):
    """Every sink, by name."""

    # Messages never repeat a key that was written into the file by mistake.
    model_config = ConfigDict(hide_input_in_errors=True)

    version: Literal["1"]
    sinks: tuple[SinkEntry, ...] = Field(max_length=100)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({each.name for each in self.sinks}) != len(self.sinks):
            raise ValueError("two sinks have one name")
        return self

    def entry(self, name: str) -> SinkEntry:
        """Return the sink. Raises MalformedError (``sink_unknown``)."""
        found = next((each for each in self.sinks if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in self.sinks) or "none"
            raise MalformedError(f"there is no sink {name[:80]!r} in sinks.json; its sinks: {known}", code="sink_unknown")
        return found


#: Without the file there is no sink.
SINKS_FILE: Final = PolicyFile("sinks.json", SinksPolicy, default=lambda: SinksPolicy(version="1", sinks=()))
