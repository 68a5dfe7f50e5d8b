"""``environments.json``: one profile a language, a prefix with its tools or an image by its digest. No tag is ever taken."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from gatewright.contracts.vocabulary import Language
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.sandbox.images import is_pinned

_TOOL = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"


class LanguageProfile(PolicyModel):
    """``prefix`` is shown to commands as ``--env`` shows it, and has to be listed by the roles that run them.

    Without one they see the system's programs. ``tools`` are the programs that commands of the language need.
    """

    language: Language
    prefix: str | None = None
    image: str | None = None
    tools: tuple[str, ...] = Field(default=(), max_length=64)

    @field_validator("prefix")
    @classmethod
    def _absolute(cls, prefix: str | None) -> str | None:
        if prefix is not None and not Path(prefix).is_absolute():
            raise ValueError("name the prefix by its absolute path")
        return prefix

    @field_validator("image")
    @classmethod
    def _pinned_digest(cls, image: str | None) -> str | None:
        if image is not None and not is_pinned(image):
            raise ValueError("an image is named by its digest (NAME@sha256:...): what a tag names can be replaced")
        return image

    @field_validator("tools")
    @classmethod
    def _check_program_names(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        for tool in tools:
            if not re.fullmatch(_TOOL, tool):  # noqa: TID251 - the operator's own text
                raise ValueError(f"{tool!r} is no name of a program")
        return tools

    @model_validator(mode="after")
    def _one_place(self) -> LanguageProfile:
        if self.prefix is not None and self.image is not None:
            raise ValueError("a profile is a prefix or an image, not both")
        return self


class EnvironmentsPolicy(PolicyModel):
    """At most one profile per language; without one, nothing is chosen."""

    version: Literal["1"]
    profiles: tuple[LanguageProfile, ...]

    @model_validator(mode="after")
    def _each_once(self) -> EnvironmentsPolicy:
        for language, count in Counter(profile.language for profile in self.profiles).items():
            if count > 1:
                raise ValueError(f"the language {language} has {count} profiles")
        return self

    def profile(self, language: Language) -> LanguageProfile | None:
        """Return the profile of ``language``; None without one."""
        return next((profile for profile in self.profiles if profile.language == language), None)


NO_PROFILES = EnvironmentsPolicy(version="1", profiles=())
ENVIRONMENTS_FILE = PolicyFile("environments.json", EnvironmentsPolicy)
