"""What a verification found out: each fault with its step, its code and the file that it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

#: ``malformed``: not a bundle by its form. ``not_verified``: checked, and wrong. ``incomplete``: something is not there.
FaultKind = Literal["malformed", "not_verified", "incomplete"]
Outcome = Literal["ok", "malformed", "not_verified", "incomplete"]
#: A bundle with several faults is called by the first of these that it has.
PRECEDENCE: tuple[FaultKind, ...] = ("malformed", "not_verified", "incomplete")
STEPS: tuple[str, ...] = ("shape", "signature", "files", "schemas", "events", "story", "consistency")
#: Where a repository is given, it is asked too.
REPOSITORY_STEP = "repository"


@dataclass(frozen=True, slots=True)
class VerificationFinding:
    """One fault. ``step`` counts from 1 (``STEPS``), ``code`` is stable, ``path`` is inside the bundle (empty: the folder).

    ``against`` is the second place, where two places contradict each other; empty elsewhere.
    """

    step: int
    fault: FaultKind
    code: str
    path: str
    message: str
    against: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of ``verify``. Only ``ok`` means that the bundle proves what it claims.

    ``run_id`` and ``status`` are what the bundle says of itself; compare them with what you expected. ``signer`` is the id of
    the trusted key that signed it, empty when none did. ``files`` and ``size`` count what was read, in bytes. ``location`` is
    the folder, or where it was fetched from.
    """

    location: Path | str
    findings: tuple[VerificationFinding, ...]
    run_id: str
    status: str
    signer: str
    manifest_sha256: str
    files: int
    size: int
    #: What was done, one sentence a step.
    checked: tuple[str, ...]
    #: What cannot be told from a bundle alone, or could not be checked in this one.
    unchecked: tuple[str, ...]
    #: Who approved what, by which key, when, over which tree.
    approved: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        faults = {finding.fault for finding in self.findings}
        return next((fault for fault in PRECEDENCE if fault in faults), "ok")

    @property
    def ok(self) -> bool:
        return not self.findings


@dataclass(slots=True)
class Findings:
    """Findings in the making."""

    found: list[VerificationFinding] = field(default_factory=list)

    def malformed(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "malformed", code, path, message))

    def wrong(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "not_verified", code, path, message))

    def contradiction(self, step: int, code: str, path: str, against: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "not_verified", code, path, message, against))

    def incomplete(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "incomplete", code, path, message))
