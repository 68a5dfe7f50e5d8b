"""The policy file of commands: which may run, with which options, and what each is worth as a test."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from services.gatekeeper.policy_model import Policy

Use = Literal["acceptance", "executor"]


class CommandClass(StrEnum):
    """What a command does by its kind."""

    READ_ONLY = "read-only"
    LOCAL_WRITE = "local-write"
    NETWORK = "network"
    DEPENDENCY_INSTALL = "dependency-install"
    DESTRUCTIVE = "destructive"
    CREDENTIAL_SENSITIVE = "credential-sensitive"


class CommandRule(Policy):
    """An argv prefix that may run, and every option that it may be given: one that is not listed is refused.

    An option ends in ``=`` when it takes a value (``--tb=``, ``-k=``). What is no option is an operand.
    """

    prefix: tuple[str, ...] = Field(min_length=1)
    uses: tuple[Use, ...] = Field(min_length=1)
    kind: CommandClass = Field(alias="class")
    options: tuple[str, ...] = ()
    #: Long options have one dash, as those of Go's tools.
    single_dash: bool = False
    #: What the first operand is: a path like the others, a script of the workspace (after it, everything is the script's own),
    #: text (a pattern), or one command of sed.
    first: Literal["path", "script", "text", "sed"] = "path"
    #: How many operands there may be.
    operands: int = Field(default=1000, ge=0)
    #: Whether ``--`` may hand the rest over as it is.
    rest: bool = False
    #: Proves nothing: refused as an acceptance test where the contract asks for strict acceptance; so are these options.
    trivial: bool = False
    trivial_options: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _options_are_options(self) -> CommandRule:
        for option in self.options:
            if not option.startswith("-") or option.strip("-=") == "":
                raise ValueError(f"{option!r} is no option")
        return self


class CommandAllowlist(Policy):
    version: Literal["2"]
    commands: tuple[CommandRule, ...] = Field(min_length=1)
