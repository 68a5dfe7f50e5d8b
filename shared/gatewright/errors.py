"""Every error that may cross a boundary of Gatewright.

Three kinds, never mixed: *malformed* (the bytes violate the schema), *denied* (a gate or a policy refused) and
*unavailable* (something needed is missing). Each class has a stable ``code`` that scripts may match on, and its docstring
has advice for the operator; ``gatewright.reasons`` documents each code. Foreign exceptions are translated into these where
they arise.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from gatewright.reasons import REASONS, Family


class Fault(NamedTuple):
    """A fault of a document.

    ``pointer`` is an RFC 6901 JSON pointer into the document, ``code`` names the broken rule, ``message`` is for people.
    """

    pointer: str
    code: str
    message: str


class GatewrightError(Exception):
    """Base of all errors; look at ``code`` and the message."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = code or self.code
        #: From the reason; for one outside the table (a number of the bus server, for example), from the class.
        self.family: Family = REASONS[self.reason if self.reason in REASONS else self.code].family


class MalformedError(GatewrightError):
    """The input is not a valid document. Correct the named fields and send it again."""

    code = "malformed"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = (), code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.faults = faults


class UnknownSchemaError(MalformedError):
    """A message names a schema that this version does not have. Upgrade, or correct the ``Gw-Schema`` header."""

    code = "unknown_schema"


class DeniedError(GatewrightError):
    """A policy or a gate refused. The reason names the rule; change the request or have the policy changed."""

    code = "denied"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = (), code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.faults = faults


class CommandRefusedError(DeniedError):
    """A command is not on the allowlist, or is not a plain argv. Rewrite it, or extend policies/command_allowlist.json."""

    code = "command_not_allowed"


class ScopeError(DeniedError):
    """A path is not one that a contract may name or a change may touch. Narrow or correct it."""

    code = "scope_violation"


class ExtractionError(DeniedError):
    """A model's reply contains no file, or one that is ambiguous or unsafe to write. Request a clear reply."""

    code = "reply_not_usable"


class AgentWireError(DeniedError):
    """A coding agent sent an invalid message of its protocol, too much, or nothing. Check the agent and its version."""

    code = "agent_failed"


class BudgetError(DeniedError):
    """A task has used up what it was given. Raise the budget, or order less."""

    code = "budget_exceeded"


class UnavailableError(GatewrightError):
    """Something that is needed cannot be had now. It is tried again; look at the cause if it stays."""

    code = "unavailable"


class LimitError(UnavailableError):
    """A publisher sends too often, or has too much going on. Try again, after ``retry_after`` seconds where that is known."""

    code = "limit_reached"

    def __init__(self, message: str, *, retry_after: float | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class BusError(UnavailableError):
    """The message bus cannot be reached or refused a call. Check the NATS server and GATEWRIGHT_NATS_URL."""

    code = "bus_unavailable"


class ConflictError(UnavailableError):
    """Another writer appended first. The caller reloads and decides again; the operator need not act."""

    code = "ledger_conflict"


class ArtifactError(UnavailableError):
    """An artifact is missing, or its bytes do not have the digest that names it. It is not used."""

    code = "artifact_unavailable"


class StoreError(UnavailableError):
    """A store of bundles is unreachable, refuses, or returns wrong data: see the reason, and ``stores.json``."""

    code = "store_unreachable"


class SandboxError(UnavailableError):
    """The sandbox is unavailable on this host. The message names the cause; ``gatewright doctor`` shows more."""

    code = "sandbox_unavailable"


class HostError(UnavailableError):
    """This host fails: a full disk, no permission, a broken disk, too many open files.

    The message has advice. The work itself is valid, and is done once that is fixed.
    """

    code = "host_failed"


class GitError(UnavailableError):
    """git failed. The message has its output; for a repository from outside, check that it exists and is readable."""

    code = "git_failed"


class PatchError(DeniedError):
    """A patch cannot be read, or does not apply to its baseline. The message names the line or the file, and what to do.

    ``path`` is the file that it is about, where one is known.
    """

    code = "patch_does_not_apply"

    def __init__(self, message: str, *, code: str | None = None, path: bytes | None = None) -> None:
        super().__init__(message, code=code)
        self.path = path


class ConfigurationError(GatewrightError):
    """A setting or a policy file is missing or wrong. The service does not start until it is corrected."""

    code = "configuration_invalid"


class VerificationError(GatewrightError):
    """A bundle was read and does not prove what it claims. Treat it as forged until explained."""

    code = "not_verified"
