"""The builder of a gate report: a gate adds violations, remarks and evidence, then builds the report."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from gatewright.clock import Clock, timestamp
from gatewright.contracts import GateReport
from gatewright.contracts.reports import MOST_VIOLATIONS, Evidence, GateName, PlayedTests, Remark, RuleOutcome, Violation
from gatewright.git.paths import display
from gatewright.reasons import family_of
from gatewright.run.events import ASKS
from gatewright.secrets.documents import redact_words
from gatewright.secrets.scanner import SecretScanner

#: Maximum number of listed remarks; further ones are only counted.
MAX_REMARKS = 100

_PATTERNS = SecretScanner()
#: Maximum number of touched paths listed per rule; further ones are only counted.
MAX_TOUCHED = 20
#: Maximum characters of a detail. It quotes untrusted text, and a report must fit into one message of the ledger.
MAX_DETAIL = 600


@dataclass
class GateReportBuilder:
    """Collector of one gate's findings. The first violation gives the report its reason code.

    ``checked`` names a rule when it is applied, ``violate`` when it is broken. The report lists each rule once, in the order in
    which they were first named.
    """

    run_id: str
    gate: GateName
    task_id: str | None = None
    attempt: int = 1
    violations: list[Violation] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    unlisted: int = 0
    rules: dict[str, RuleOutcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    unlisted_remarks: int = 0
    touches: dict[str, list[bytes]] = field(default_factory=dict)
    played: tuple[PlayedTests, ...] = ()

    def checked(self, rule: str, detail: str = "") -> None:
        """Record that a rule was applied. It is kept unless it is also violated, earlier or later."""
        self.rules.setdefault(rule, RuleOutcome(rule=rule, verdict="PASS", detail=_short(detail)))

    def violate(self, code: str, rule: str, detail: str, path: bytes | None = None) -> None:
        """Record a violation of a rule.

        Args:
            code: stable reason code; the first one becomes the report's code.
            rule: name of the rule.
            detail: explanation for people.
            path: the path that breaks the rule.
        """
        detail = _short(detail)
        known = self.rules.get(rule)
        if known is None or known.verdict == "PASS":
            self.rules[rule] = RuleOutcome(rule=rule, verdict="FAIL", detail=detail)
        if len(self.violations) == MOST_VIOLATIONS:
            self.unlisted += 1
            return
        self.violations.append(Violation(code=code, rule=rule, detail=detail, path=_shown_path(path)))

    def note_violated(self, rule: str, detail: str) -> None:
        """Add a detail to a rule that is already broken. It is reported without being a violation of its own."""
        self.rules[rule] = RuleOutcome(rule=rule, verdict="FAIL", detail=detail)

    def touched(self, rule: str, path: bytes) -> None:
        """Record a path that the rule would have refused if the contract did not open it."""
        self.touches.setdefault(rule, []).append(path)

    def asks(self, reason: str, words: str) -> None:
        """Record a reason for which the operator's rules may require approval. It breaks no rule."""
        rule = f"{ASKS}{reason}"
        known = self.rules.get(rule)
        self.rules[rule] = RuleOutcome(rule=rule, verdict="PASS", detail=_short(f"{known.detail}; {words}" if known else words))

    def asks_about_touched(self, prefix: str, reason: str) -> None:
        """Record approval reasons for the paths that a family of rules would have refused but the contract opens, by class."""
        for rule, paths in tuple(self.touches.items()):
            if rule.startswith(prefix):
                name = rule.removeprefix(prefix).partition(".")[0]
                self.asks(f"{reason}:{name}", f"{name}: {_list_paths(paths)}")

    def saw(self, name: str, digest: str) -> None:
        """Record an examined object by name and digest."""
        self.evidence.append(Evidence(name=name, digest=digest))

    def note(self, words: str) -> None:
        """Add a clause to the summary of a report that passes."""
        self.notes.append(words)

    def remark(self, rule: str, message: str, path: bytes | None = None, line: int | None = None) -> None:
        """Record an observation that blocks nothing.

        The first 100 remarks are listed; one more remark counts the others.

        Args:
            rule: name of the rule.
            message: text for people.
            path: changed file.
            line: line in that file, from 1.
        """
        self.checked(rule)
        if len(self.remarks) == MAX_REMARKS:
            self.unlisted_remarks += 1
            return
        words = _short(redact_words(message, _PATTERNS))
        self.remarks.append(Remark(rule=rule, message=words, path=_shown_path(path), line=line))

    @property
    def clean(self) -> bool:
        return not self.violations

    def build(self, clock: Clock, started: float) -> GateReport:
        """Return the verdict. ``started`` is ``clock.monotonic()`` at the start of the gate."""
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
            rules=tuple(self._shown_outcome(outcome) for outcome in self.rules.values()),
            family=family_of(first.code) if first else None,
            remarks=self._listed_remarks(),
            played=self.played,
        )

    def _listed_remarks(self) -> tuple[Remark, ...]:
        if not self.unlisted_remarks:
            return tuple(self.remarks)
        last = self.remarks[-1]
        more = Remark(rule=last.rule, message=f"{self.unlisted_remarks} more remarks are not listed.")
        return (*self.remarks, more)

    def _shown_outcome(self, outcome: RuleOutcome) -> RuleOutcome:
        paths = self.touches.get(outcome.rule)
        if not paths or outcome.verdict == "FAIL":
            return outcome
        return replace(outcome, detail=f"{outcome.detail}, touched: {_list_paths(paths)}")

    def _summary(self, first: Violation | None) -> str:
        if first is None:
            return "; ".join(["passed", *self.notes[:MOST_VIOLATIONS]])
        words = f"{first.path}: {first.detail}" if first.path else first.detail
        more = len(self.violations) + self.unlisted - 1
        return f"{words} (and {more} more)" if more else words


def _list_paths(paths: list[bytes]) -> str:
    named = redact_words(", ".join(display(path) for path in paths[:MAX_TOUCHED]), _PATTERNS)
    more = f" and {len(paths) - MAX_TOUCHED} more" if len(paths) > MAX_TOUCHED else ""
    return f"{named}{more}"


def _shown_path(path: bytes | None) -> str | None:
    """Return a path for display: its name may itself be a secret."""
    return None if path is None else _short(redact_words(display(path), _PATTERNS))


def _short(detail: str) -> str:
    return detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}..."
