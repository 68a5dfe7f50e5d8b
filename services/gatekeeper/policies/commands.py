"""The policy file of commands: which may run, with which options, and what each is worth as a test."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field, model_validator

from gatewright.policy_files import PolicyFile, PolicyModel

Use = Literal["acceptance", "executor"]

_OPTION = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9.-]*(?:=\?|=[^=*\s]*(?:=[^=*\s]*)?\*?[^=*\s]*|\?)?")  # noqa: TID251 - the operator's own text


class CommandClass(StrEnum):
    """What a command does by its kind."""

    READ_ONLY = "read-only"
    LOCAL_WRITE = "local-write"
    NETWORK = "network"
    DEPENDENCY_INSTALL = "dependency-install"
    DESTRUCTIVE = "destructive"
    CREDENTIAL_SENSITIVE = "credential-sensitive"


class Proof(PolicyModel):
    """What strict acceptance asks of a command beyond an exit code of 0."""

    #: Proves nothing, whatever it is given.
    never: bool = False
    #: Options after which it succeeds whatever it finds, or may run nothing at all.
    without: tuple[str, ...] = ()
    #: One of these must be given: without, it changes files and succeeds.
    needs: tuple[str, ...] = ()
    #: ``some``: without an operand it may run nothing. ``none``: an operand is a filter, and a filter may select nothing.
    operands: Literal["any", "some", "none"] = "any"
    #: The only words that may follow ``--``.
    rest: tuple[str, ...] = ()


class CommandRule(PolicyModel):
    """An argv prefix that may run, and every option that it may be given: one that is not listed is refused.

    An option that takes a value ends in ``=`` (``--tb=``, ``-k=``), or in ``=N`` for a number from 1. ``=VALUE`` allows this
    value alone (``-p=no:cacheprovider``, ``--junitxml=*.xml``; one ``*``). The end ``=?`` is for a value that may be left out
    (``--cov``, ``--cov=src``), and ``?`` for one that may not be given (``-i?``). What is no option is an operand.
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
    #: Options that give what would be the first operand; with one of them, every operand is a path.
    first_by: tuple[str, ...] = ()
    #: How many operands there may be.
    operands: int = Field(default=1000, ge=0)
    #: The only operands, of which at least one must be given: goals of Maven, targets of make. ``*`` stands for letters.
    targets: tuple[str, ...] = ()
    #: Operands that may stand beside a target, and are none by themselves (``mvn clean test``).
    beside: tuple[str, ...] = ()
    #: Programs that the words after the options may start; that command is judged by its own rule.
    wraps: tuple[str, ...] = ()
    #: Words that the started command is read with in front (``coverage run -m pytest`` is ``python -m pytest``).
    wraps_as: tuple[str, ...] = ()
    #: Whether ``--`` may hand the rest over as it is.
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
