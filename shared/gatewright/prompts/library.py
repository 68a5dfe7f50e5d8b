"""Personas (S) and shared rules (D), composed for a role: built-in ones, and the operator's folder above them.

The folder holds ``*.yaml``/``*.yml`` (role id -> persona) and ``defaults.md``. It is read again when a file in it has changed:
no service has to be started again. A folder that cannot be read, or a file that is wrong, fails what needs it: an old prompt is
never used in its place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatewright.errors import ConfigurationError
from gatewright.validation_faults import fault_lines

RoleId = Literal["pm", "techlead", "reviewer", "worker"]
ROLE_IDS: tuple[RoleId, ...] = ("pm", "techlead", "reviewer", "worker")
#: The form of a role's answer: one JSON document, files in a text, or edits of a workspace.
ReplyForm = Literal["json", "files", "workspace"]

DEFAULTS = ("defaults.md", "defaults.txt")
_BUILTIN = Path(__file__).parent / "builtin"
#: Of workers. The texts for workers beside it are version 1, with which recorded runs are replayed.
_WORKER = _BUILTIN / "worker"
_SUFFIXES = (".yaml", ".yml")
#: Bytes of one file, and files of a folder.
MAX_BYTES = 256 * 1024
MAX_FILES = 100

#: Exceptions of PyYAML besides its own: for a tag with an invalid value (``!!int ''``, ``!!bool x``, ``!!timestamp x``).
_YAML_ERRORS = (yaml.YAMLError, RecursionError, ValueError, LookupError, TypeError, AttributeError)


class _Role(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    persona: str = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """S + D of a role. ``digests``: name -> sha256 of each part."""

    text: str
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Texts:
    personas: Mapping[str, str]
    defaults: str


#: Detects changes of a file: name, time, size, inode.
_Signature = tuple[tuple[str, int, int, int], ...]


class PromptLibrary:
    """The prompts of a process. ``folder`` None: the built-in ones."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._seen: _Signature | None = None
        self._texts = _builtin()

    def compose(self, role: RoleId, form: ReplyForm) -> SystemPrompt:
        """The system prompt of ``role``, for an answer in ``form``. Raises PromptsError."""
        texts = self._current()
        parts = {
            "persona": texts.personas[role],
            "defaults": texts.defaults,
            f"reply.{form}": _read_text(_BUILTIN / f"reply_{form}.md"),
        }
        return _compose(parts)

    def compose_worker(self, form: ReplyForm) -> SystemPrompt:
        """The system prompt of a worker. The operator's persona and rules replace the built-in ones. Raises PromptsError."""
        texts, builtin = self._current(), _builtin()
        own_persona = texts.personas["worker"] != builtin.personas["worker"]
        own_rules = texts.defaults != builtin.defaults
        parts = {
            "persona": texts.personas["worker"] if own_persona else _read_text(_WORKER / "persona.md"),
            "defaults": texts.defaults if own_rules else _read_text(_WORKER / "rules.md"),
            f"reply.{form}": _read_text(_WORKER / f"{form}.md"),
        }
        return _compose(parts)

    def _current(self) -> _Texts:
        if self._folder is None:
            return self._texts
        seen = _signature(self._folder)
        if seen != self._seen:
            self._texts = _read_texts(self._folder, seen)
            self._seen = seen
        return self._texts


def _compose(parts: Mapping[str, str]) -> SystemPrompt:
    whole = "\n\n".join(part.strip() for part in parts.values()) + "\n"
    return SystemPrompt(whole, {name: digest(part) for name, part in parts.items()})


def digest(text: str) -> str:
    """sha256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _builtin() -> _Texts:
    return _Texts(dict(_personas(_BUILTIN / "roles.yaml")), _read_text(_BUILTIN / DEFAULTS[0]))


def _signature(folder: Path) -> _Signature:
    """Return the signature of the relevant files, sorted. Orchestrators mount folders as links that move: they are followed."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name in DEFAULTS or entry.name.endswith(_SUFFIXES))
        if len(names) > MAX_FILES:
            raise PromptsError(f"{folder} has {len(names)} files of prompts; at most {MAX_FILES} are read")
        stats = [(name, (folder / name).stat()) for name in names if not name.startswith(".")]
    except OSError as error:
        raise PromptsError(f"the prompts in {folder} cannot be read: {error.strerror}") from error
    return tuple((name, found.st_mtime_ns, found.st_size, found.st_ino) for name, found in stats)


def _read_texts(folder: Path, seen: _Signature) -> _Texts:
    names = [name for name, *_ in seen]
    shared = [name for name in DEFAULTS if name in names]
    if len(shared) > 1:
        raise PromptsError(f"{folder} has {' and '.join(shared)}: keep one of them")
    personas: dict[str, str] = {}
    for name in names:
        if not name.endswith(_SUFFIXES):
            continue
        for role, persona in _personas(folder / name):
            if role in personas:
                raise PromptsError(f"{folder / name}: the role {role} stands in another file of the folder, too")
            personas[role] = persona
    builtin = _builtin()
    return _Texts({**builtin.personas, **personas}, _read_text(folder / shared[0]) if shared else builtin.defaults)


def _personas(file: Path) -> Iterator[tuple[str, str]]:
    try:
        loaded = yaml.safe_load(_read_text(file))
    except _YAML_ERRORS as error:
        raise PromptsError(
            f"{file} is not YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    if not isinstance(loaded, dict):
        raise PromptsError(f"{file} must hold roles by id: {', '.join(ROLE_IDS)}")
    for role, value in loaded.items():
        if role not in ROLE_IDS:
            raise PromptsError(f"{file}: there is no role {str(role)[:100]!r}; there are {', '.join(ROLE_IDS)}")
        try:
            yield role, _Role.model_validate(value).persona
        except ValidationError as error:
            raise PromptsError(f"{file}: {fault_lines(error, below=role)}") from None


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise PromptsError(f"{file} has more than {MAX_BYTES} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise PromptsError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PromptsError(f"{file} is not UTF-8: byte {error.start}") from error


# Errors of prompts.
class PromptsError(ConfigurationError):
    """The folder of prompts cannot be read, or a file in it is not what it should be. Correct the file that is named."""

    code = "prompts_invalid"
