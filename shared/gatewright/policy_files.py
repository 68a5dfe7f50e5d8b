"""What every policy file of the operator is made of (frozen models that refuse unknown fields), and how one is read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gatewright.errors import ConfigurationError


class PolicyModel(BaseModel):
    """Base of all policy files and their parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
        raise ConfigurationError(f"{path}: {error}") from error
