"""Settings of the worker, from ``GATEWRIGHT_*``."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from gatewright.service.command_settings import CommandSettings


def _own_name() -> str:
    return f"worker-{socket.gethostname()}-{os.getpid()}"


class Settings(CommandSettings):
    """``agent_id`` is in results: by default host and process, to distinguish two workers in a bundle.

    ``policies`` is the folder with ``agents.json`` and ``models.json``, which no agent can write to.
    """

    agent_id: str = Field(default_factory=_own_name, min_length=1)
    #: Folders in which the programs of coding agents are installed; separated by ``:`` in the variable.
    agent_installations: Annotated[tuple[Path, ...], NoDecode] = ()

    @field_validator("agent_installations", mode="before")
    @classmethod
    def _as_folders(cls, value: object) -> object:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("agent_installations", mode="after")
    @classmethod
    def _all_from_the_root(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        for folder in folders:
            if not folder.is_absolute():
                raise ValueError(f"{folder} is not an absolute path")
        return folders
