"""The exit codes, and the one place where an error or a finished run becomes one of them."""

from __future__ import annotations

from enum import IntEnum

from gatewright.errors import GatewrightError
from gatewright.reasons import Family, exit_code_of


class Exit(IntEnum):
    """What scripts may rely on."""

    GOOD = 0
    FAILED = 1
    INPUT = 2
    INFRASTRUCTURE = 3


def exit_of_error(error: GatewrightError) -> Exit:
    """The exit code of the family of the error's reason."""
    return Exit(exit_code_of(error.family))


def exit_of_run(family: Family | None) -> Exit:
    """The exit code for a run that ended with a reason of this family (None: it succeeded)."""
    return Exit.GOOD if family is None else Exit(exit_code_of(family))
