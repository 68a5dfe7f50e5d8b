"""The command policy: permitted commands, their options, and what each proves as a test."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field, model_validator

from gatewright.policy_files import PolicyFile, PolicyModel

Use = Literal["acceptance", "executor"]

_OPTION = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9.-]*(?:=\?|=[^=*\s]*(?:=[^=*\s]*)?\*?[^=*\s]*|\?)?")  # noqa: TID251 - the operator's own text


class CommandClass(StrEnum):
    """Class of a command by its effect."""

    READ_ONLY = "read-only"
    LOCAL_WRITE = "local-write"
    NETWORK = "network"
    DEPENDENCY_INSTALL = "dependency-install"
    DESTRUCTIVE = "destructive"
    CREDENTIAL_SENSITIVE = "credential-sensitive"


class Proof(PolicyModel):
    """Requirements of strict acceptance on a command beyond exit code 0."""

    #: Proves nothing with any arguments.
    never: bool = False
    #: Options that make the command succeed with any result, or possibly run nothing.
    without: tuple[str, ...] = ()
    #: At least one of these is required: otherwise the command changes files and succeeds.
    needs: tuple[str, ...] = ()
    #: ``some``: without an operand it may run nothing. ``none``: an operand is a filter, and a filter may select nothing.
    operands: Literal["any", "some", "none"] = "any"
    #: The only words permitted after ``--``.
    rest: tuple[str, ...] = ()


class CommandRule(PolicyModel):
    """A permitted argv prefix with all permitted options: unlisted options are refused.

    An option with a value ends in ``=`` (``--tb=``, ``-k=``), or in ``=N`` for a number from 1. ``=VALUE`` permits only this
    value (``-p=no:cacheprovider``, ``--junitxml=*.xml``; one ``*``). The ending ``=?`` marks an optional value (``--cov``,
    ``--cov=src``), and ``?`` an optional value that must not be given (``-i?``). Other words are operands.
    """

    prefix: tuple[str, ...] = Field(min_length=1)
    uses: tuple[Use, ...] = Field(min_length=1)
    kind: CommandClass = Field(alias="class")
    options: tuple[str, ...] = ()
    #: Long options have one dash, as in Go's tools.
    single_dash: bool = False
    #: Kind of the first operand: a path like the others, a script of the workspace (all later words belong to it), text (a
    #: pattern), or a single sed command.
    first: Literal["path", "script", "text", "sed"] = "path"
    #: Options that replace the first operand; with one of them, every operand is a path.
    first_by: tuple[str, ...] = ()
    #: Maximum number of operands.
    operands: int = Field(default=1000, ge=0)
    #: The only permitted operands, at least one of them required: goals of Maven, targets of make. ``*`` matches letters.
    targets: tuple[str, ...] = ()
    #: Operands permitted beside a target but not alone (``mvn clean test``).
    beside: tuple[str, ...] = ()
    #: Programs that the words after the options may start; that command is judged by its own rule.
    wraps: tuple[str, ...] = ()
    #: Words put in front of the started command before it is judged (``coverage run -m pytest`` is ``python -m pytest``).
    wraps_as: tuple[str, ...] = ()
    #: Whether ``--`` may pass the remaining words through.
    rest: bool = False
    proof: Proof = Proof()

    @model_validator(mode="after")
    def _options_are_options(self) -> CommandRule:
        for option in self.options:
            if not _OPTION.fullmatch(option):
                raise ValueError(f"{option!r} is no option")
        known = {option.removesuffix("?").partition("=")[0] for option in self.options}
        for option in (*self.proof.without, *self.proof.needs, *self.first_by):
            if option not in known:
                raise ValueError(f"{option!r} is not among the options")
        return self


class CommandAllowlist(PolicyModel):
    version: Literal["2"]
    commands: tuple[CommandRule, ...] = Field(min_length=1)


ALLOWLIST_FILE: Final = PolicyFile("command_allowlist.json", CommandAllowlist)
