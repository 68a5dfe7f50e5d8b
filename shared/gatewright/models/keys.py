"""References to a provider's key: a variable, a file or an entry of the keyring, read when a call is sent and not before."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from pydantic import Field, field_validator

from gatewright.errors import ConfigurationError
from gatewright.policy_files import PolicyModel

#: Bytes of a file that holds a key; more is no key.
_LARGEST = 4096
_VISIBLE = range(0x21, 0x7F)


class EnvironmentKey(PolicyModel):
    """The key is the value of a variable of the process that runs the gateway."""

    environment: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")

    def read(self) -> str:
        """The key. Raises ConfigurationError (``model_key_missing``)."""
        return _key(os.environ.get(self.environment, ""), f"the variable {self.environment}")


class FileKey(PolicyModel):
    """The key is the first line of a file, which no other account should be able to read."""

    file: Path

    @field_validator("file")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("name the file by its absolute path")
        return path

    def read(self) -> str:
        """The key. Raises ConfigurationError (``model_key_missing``)."""
        try:
            with self.file.open("rb") as file:
                text = file.read(_LARGEST + 1).decode("ascii", "replace")
        except OSError as error:
            raise _missing(f"the file {self.file}", error.strerror or "it cannot be read") from None
        return _key(text.strip().partition("\n")[0], f"the file {self.file}")


class KeyringName(PolicyModel):
    """An entry of the keyring of the account that the gateway runs as."""

    service: str = Field(min_length=1, max_length=200)
    user: str = Field(min_length=1, max_length=200)


class KeyringKey(PolicyModel):
    """The key lies in the system's keyring; this needs the package ``keyring``."""

    keyring: KeyringName

    def read(self) -> str:
        """The key. Raises ConfigurationError (``model_key_missing``)."""
        where = f"the keyring's entry {self.keyring.service!r}"
        try:
            library = importlib.import_module("keyring")  # wanted by few, and not installed for the others
        except ImportError:
            raise _missing(where, "the package keyring is not installed") from None
        try:
            value = library.get_password(self.keyring.service, self.keyring.user)
        except (library.errors.KeyringError, OSError) as error:
            raise _missing(where, type(error).__name__) from None
        return _key(value or "", where)


KeyReference = EnvironmentKey | FileKey | KeyringKey


def _key(value: str, where: str) -> str:
    """``value``, if it can stand in a header. The message never holds it."""
    value = value.strip()
    if not value:
        raise _missing(where, "it is empty or not there")
    if len(value) > _LARGEST or any(ord(char) not in _VISIBLE for char in value):
        raise _missing(where, "it holds characters that no key has")
    return value


def _missing(where: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"no key of the model's provider: {where}: {why}", code="model_key_missing")
