"""A judgement in the making: violations and evidence gathered by a gate, then its report."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatewright.clock import Clock, timestamp
from gatewright.contracts import GateReport
from gatewright.contracts.reports import Evidence, GateName, Violation
from gatewright.git.paths import display

#: More violations than this are counted, not listed: a hostile patch must not make the report huge.
MAX_VIOLATIONS = 100


@dataclass
class Judgement:
    """Gathers what one gate finds. The first violation gives the report its reason code."""

    run_id: str
    gate: GateName
    task_id: str | None = None
    attempt: int = 1
    violations: list[Violation] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    unlisted: int = 0

    def violate(self, code: str, rule: str, detail: str, path: bytes | None = None) -> None:
        """A rule is broken."""
        if len(self.violations) == MAX_VIOLATIONS:
            self.unlisted += 1
            return
        shown = None if path is None else display(path)
        self.violations.append(Violation(code=code, rule=rule, detail=detail, path=shown))

    def saw(self, name: str, digest: str) -> None:
        """Something that was looked at."""
        self.evidence.append(Evidence(name=name, digest=digest))

    @property
    def clean(self) -> bool:
        return not self.violations

    def report(self, clock: Clock, started: float) -> GateReport:
        """The verdict; ``started`` is ``clock.monotonic()`` when the gate began."""
        first = self.violations[0] if self.violations else None
        return GateReport(
            run_id=self.run_id,
            gate=self.gate,
            task_id=self.task_id,
            attempt=self.attempt,
            verdict="FAIL" if first else "PASS",
            code=first.code if first else "ok",
            summary=self._summary(first),
            violations=tuple(self.violations),
            evidence=tuple(self.evidence),
            evaluated_at=timestamp(clock.now()),
            duration_ms=round((clock.monotonic() - started) * 1000, 3),
        )

    def _summary(self, first: Violation | None) -> str:
        if first is None:
            return "passed"
        words = f"{first.path}: {first.detail}" if first.path else first.detail
        more = len(self.violations) + self.unlisted - 1
        return f"{words} (and {more} more)" if more else words
