"""What every policy file of the operator is made of (frozen models that refuse unknown fields), and how one is read.

A policy never holds a key. It refers to one: a variable, a file or an entry of the keyring, read when it is used.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from gatewright.errors import ConfigurationError
from gatewright.validation_faults import fault_lines

#: Bytes of a file that holds a key; more is no key.
_LARGEST = 4096
_VISIBLE = range(0x21, 0x7F)


class KeyOwner(NamedTuple):
    """What a key is for, in words, and the code of the error when it is not to be had."""

    words: str
    code: str


PROVIDER = KeyOwner("the model's provider", "model_key_missing")


class PolicyModel(BaseModel):
    """Base of all policy files and their parts."""

    # Built when the first file is read: most processes import many kinds of policy, and read few.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


P = TypeVar("P", bound=PolicyModel)


def read_policy(path: Path) -> bytes:
    """The bytes of a policy file. Raises ConfigurationError naming it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"policy file {path} cannot be read: {error.strerror}") from error


def parse_policy(path: Path, kind: type[P], data: bytes) -> P:
    """``data``, which was read from ``path``, as a ``kind``. Raises ConfigurationError naming the file and the place."""
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {fault_lines(error)}") from None


class EnvironmentKey(PolicyModel):
    """The key is the value of a variable of the process that uses it, or the first line of the file that ``NAME_FILE`` names.

    So container engines hand secrets to programs, without a variable that shows them.
    """

    environment: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")

    @property
    def names(self) -> tuple[str, str]:
        """The variables that are looked at, the first one first."""
        return self.environment, f"{self.environment}_FILE"

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        variable, names_file = self.names
        value, file = os.environ.get(variable, ""), os.environ.get(names_file, "")
        if value or not file:
            return _key(value, f"the variable {variable}", owner)
        if not Path(file).is_absolute():
            raise _missing(f"the variable {names_file}", "it names no file by its absolute path", owner)
        return _first_line(Path(file), owner)


class FileKey(PolicyModel):
    """The key is the first line of a file, which no other account should be able to read."""

    file: Path

    @field_validator("file")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("name the file by its absolute path")
        return path

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        return _first_line(self.file, owner)


class KeyringName(PolicyModel):
    """An entry of the keyring of the account that the process runs as."""

    service: str = Field(min_length=1, max_length=200)
    user: str = Field(min_length=1, max_length=200)


class KeyringKey(PolicyModel):
    """The key lies in the system's keyring; this needs the package ``keyring``."""

    keyring: KeyringName

    def read(self, owner: KeyOwner = PROVIDER) -> str:
        """The key. Raises ConfigurationError with the code of its ``owner``."""
        where = f"the keyring's entry {self.keyring.service!r}"
        try:
            library = importlib.import_module("keyring")  # wanted by few, and not installed for the others
        except ImportError:
            raise _missing(where, "the package keyring is not installed", owner) from None
        try:
            value = library.get_password(self.keyring.service, self.keyring.user)
        except (library.errors.KeyringError, OSError) as error:
            raise _missing(where, type(error).__name__, owner) from None
        return _key(value or "", where, owner)


KeyReference = EnvironmentKey | FileKey | KeyringKey


def _first_line(place: Path, owner: KeyOwner) -> str:
    try:
        with place.open("rb") as file:
            text = file.read(_LARGEST + 1).decode("ascii", "replace")
    except OSError as error:
        raise _missing(f"the file {place}", error.strerror or "it cannot be read", owner) from None
    return _key(text.strip().partition("\n")[0], f"the file {place}", owner)


def _key(value: str, where: str, owner: KeyOwner) -> str:
    """``value``, if it can stand in a header. The message never holds it."""
    value = value.strip()
    if not value:
        raise _missing(where, "it is empty or not there", owner)
    if len(value) > _LARGEST or any(ord(char) not in _VISIBLE for char in value):
        raise _missing(where, "it holds characters that no key has", owner)
    return value


def _missing(where: str, why: str, owner: KeyOwner) -> ConfigurationError:
    return ConfigurationError(f"no key of {owner.words}: {where}: {why}", code=owner.code)
