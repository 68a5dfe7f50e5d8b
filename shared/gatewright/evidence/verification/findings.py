"""Findings of a verification: each fault with its step, its code and its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

#: ``malformed``: not a bundle by its form. ``not_verified``: checked, and wrong. ``incomplete``: something is missing.
FaultKind = Literal["malformed", "not_verified", "incomplete"]
Outcome = Literal["ok", "malformed", "not_verified", "incomplete"]
#: A bundle with several faults gets the first of these kinds that occurs.
PRECEDENCE: tuple[FaultKind, ...] = ("malformed", "not_verified", "incomplete")
STEPS: tuple[str, ...] = ("shape", "signature", "files", "schemas", "events", "story", "consistency")
#: Used when a repository is given.
REPOSITORY_STEP = "repository"


@dataclass(frozen=True, slots=True)
class VerificationFinding:
    """One fault. ``step`` starts at 1 (``STEPS``), ``code`` is stable, ``path`` is inside the bundle (empty: the folder).

    ``against`` is the second place, where two places contradict each other; otherwise empty.
    """

    step: int
    fault: FaultKind
    code: str
    path: str
    message: str
    against: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of ``verify``. Only ``ok`` means that the bundle proves what it claims.

    ``run_id`` and ``status`` are the bundle's own claims; compare them with what you expected. ``signer`` is the id of the
    trusted key that signed it, empty without one. ``files`` and ``size`` are the number of files and bytes read. ``location``
    is the folder, or the URL it was fetched from.
    """

    location: Path | str
    findings: tuple[VerificationFinding, ...]
    run_id: str
    status: str
    signer: str
    manifest_sha256: str
    files: int
    size: int
    #: Completed checks, one sentence per step.
    checked: tuple[str, ...]
    #: Limits: what a bundle alone cannot prove, or what could not be checked in this one.
    unchecked: tuple[str, ...]
    #: Approvals: who, by which key, when, over which tree.
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
    """Collector of findings."""

    found: list[VerificationFinding] = field(default_factory=list)

    def malformed(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "malformed", code, path, message))

    def wrong(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "not_verified", code, path, message))

    def contradiction(self, step: int, code: str, path: str, against: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "not_verified", code, path, message, against))

    def incomplete(self, step: int, code: str, path: str, message: str) -> None:
        self.found.append(VerificationFinding(step, "incomplete", code, path, message))
