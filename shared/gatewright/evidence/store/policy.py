"""``stores.json``: endpoint, trusted certificates and credentials of each store. It contains no key."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from gatewright.errors import StoreError
from gatewright.evidence.store.address import StoreAddress, parse_store
from gatewright.policy_files import AbsolutePath, KeyReference, PolicyFile, PolicyModel


def _check_place(given: str) -> str:
    try:
        return str(parse_store(given))
    except StoreError as error:
        raise ValueError(error.message) from None


StorePlace = Annotated[str, AfterValidator(_check_place)]


class StoreCredentials(PolicyModel):
    """References to the two halves of a key, and to a session token where there is one."""

    access_key: KeyReference
    secret_key: KeyReference
    session_token: KeyReference | None = None


class RetentionLock(PolicyModel):
    """Retention lock on sealed bundles in days. ``compliance``: not even the store's owner can remove it."""

    days: int = Field(ge=1, le=36_500)
    mode: Literal["governance", "compliance"] = "governance"


class StoreEntry(PolicyModel):
    """Settings of the stores at ``places`` and below them.

    ``credentials``: a key; ``workload``: credentials from the platform (AWS's own chain: web identity, container, instance);
    without either, requests are anonymous. ``endpoint``: URL of a server other than Amazon's.
    """

    places: tuple[StorePlace, ...] = Field(min_length=1)
    endpoint: str | None = Field(default=None, max_length=2000)
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    addressing: Literal["path", "virtual"] = "virtual"
    ca_file: AbsolutePath | None = None
    credentials: StoreCredentials | Literal["workload"] | None = None
    lock: RetentionLock | None = None

    @field_validator("endpoint")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        plain = parts.hostname and not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
        if parts.scheme not in {"http", "https"} or not plain:
            raise ValueError("an endpoint is http(s)://HOST[:PORT]")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _fitting(self) -> StoreEntry:
        s3_alone = self.endpoint is not None or self.credentials is not None or self.lock is not None
        if s3_alone and not all(place.startswith("s3://") for place in self.places):
            raise ValueError("endpoint, credentials and lock are for places that begin with s3://")
        return self


class StoresPolicy(PolicyModel):
    """The first entry that covers a URL applies."""

    # Messages never repeat a key that was written into the file by mistake.
    model_config = ConfigDict(hide_input_in_errors=True)

    version: Literal["1"]
    stores: tuple[StoreEntry, ...]

    def entry(self, address: StoreAddress) -> StoreEntry:
        """Return the settings of a store; defaults when no entry covers it."""
        wanted = str(address)
        covering = (each for each in self.stores for place in each.places if wanted == place or wanted.startswith(f"{place}/"))
        return next(covering, StoreEntry(places=(wanted,)))


#: Without the file no store has credentials.
STORES_FILE: Final = PolicyFile("stores.json", StoresPolicy, default=lambda: StoresPolicy(version="1", stores=()))
