"""The exit codes, and the one place where an error or a finished run becomes one of them."""

from __future__ import annotations

from enum import IntEnum

from gatewright.client.refusals import family_of
from gatewright.errors import DeniedError, GatewrightError, MalformedError, VerificationError


class Exit(IntEnum):
    """What scripts may rely on."""

    GOOD = 0
    FAILED = 1
    INPUT = 2
    INFRASTRUCTURE = 3


def exit_of_error(error: GatewrightError) -> Exit:
    """Malformed input is 2; a gate's or a check's no is 1; everything that could not be had is 3."""
    if isinstance(error, MalformedError):
        return Exit.INPUT
    if isinstance(error, DeniedError | VerificationError):
        return Exit.FAILED
    return Exit.INFRASTRUCTURE


def exit_of_run(code: str | None) -> Exit:
    """The exit code for a run that ended with this reason code (None: it succeeded)."""
    if code is None:
        return Exit.GOOD
    return {"malformed": Exit.INPUT, "denied": Exit.FAILED, "unavailable": Exit.INFRASTRUCTURE}[family_of(code)]
