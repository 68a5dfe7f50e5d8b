"""Settings of the gatekeeper, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from gatewright.errors import ConfigurationError
from gatewright.evidence.signing.keys import home_key
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.git.host.user_checkout import UserSigning
from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``policies`` is a folder that no agent can write to; ``key`` is the file of the signing key, created when missing."""

    key: Path | None = None
    #: Publishers in addition to ``publishers.json``, separated by blanks in the variable; see ``Publishers.with_named``.
    publishers: Annotated[tuple[str, ...], NoDecode] = ()
    #: Store of sealed bundles: ``s3://BUCKET[/PREFIX]``, with the credentials of ``stores.json``; None: the home folder.
    bundle_store: str | None = None
    #: Number of inputs judged at the same time.
    parallel_inputs: int = Field(default=16, ge=1, le=256)
    #: How the user's git signs commits (JSON), from the owner of an embedded stack; empty for every other system.
    user_signing: str = ""

    @field_validator("bundle_store", mode="before")
    @classmethod
    def _none_for_nothing(cls, value: object) -> object:
        return value or None

    @field_validator("publishers", mode="before")
    @classmethod
    def _as_words(cls, value: object) -> object:
        return tuple(value.split()) if isinstance(value, str) else value

    @property
    def user_signs(self) -> UserSigning | None:
        """Return how the user's git signs commits; None for unsigned ones, and for a system that is not the user's own.

        Raises ConfigurationError.
        """
        try:
            return read_json(self.user_signing.encode(), UserSigning) if self.user_signing else None
        except UnreadableDocumentError as error:
            raise ConfigurationError(f"GATEWRIGHT_USER_SIGNING: {error}") from error

    @property
    def signing_key(self) -> Path:
        return self.key or home_key(self.home)
