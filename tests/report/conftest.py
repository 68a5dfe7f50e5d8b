"""Sealed bundles whose every word is hostile, and pages made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.report.account import read_account
from gatewright.app.report.limits import PageLimits
from gatewright.app.report.page import Material, render
from gatewright.contracts.reports import GateName, RuleOutcome, TestReport, Violation
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.recorded_runs import MAKERS, RecordedRun

#: A word that tries everything: markup, an attribute's end, a control sequence, a bidirectional override, a NUL.
HOSTILE = "</code><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202egnp.exe\x00\u2028"
PATCH = b"""diff --git a/src/a.py b/src/a.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@ def <b>heading</b>
 def f():
-    return "<script>alert(1)</script>"
+    return "\xe2\x80\xaex</td><script>alert(2)</script>"\x1b[2J\xff
 # end
diff --git "a/src/<script>alert(3)</script>\\303\\251\\n\\377.py" "b/src/<script>alert(3)</script>\\303\\251\\n\\377.py"
new file mode 100644
index 0000000000000000000000000000000000000000..2222222222222222222222222222222222222222
--- /dev/null
+++ "b/src/<script>alert(3)</script>\\303\\251\\n\\377.py"
@@ -0,0 +1 @@
+x
\\ No newline at end of file
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000000000000000000000000000000000000..2222222222222222222222222222222222222222
GIT binary patch
literal 4
LcmZQzU}gXS00;nc

literal 0
HcmV?d00001

"""

SealRun = Callable[[RecordedRun], Path]
MakePage = Callable[..., bytes]


@dataclass
class HostileRun(RecordedRun):
    """A run whose roles, repository and publisher say nothing but hostile words."""

    output: bytes = b"<script>alert(4)</script>\x1b[31mred\x1b[0m\x1b]0;title\x07 \xff\xe2\x80\xae\x00\n"

    def gate(
        self, gate: GateName, *, task_id: str | None = None, code: str = "ok", evidence: str = "", detail: str = HOSTILE
    ) -> e.LabelledEvent:
        event = super().gate(gate, task_id=task_id, code=code, evidence=evidence, detail=detail)
        assert isinstance(event.event, e.GateJudged)
        violations = (Violation(code="refused", rule=HOSTILE, detail=HOSTILE, path=HOSTILE),) if code != "ok" else ()
        rules = (RuleOutcome(rule=HOSTILE, verdict="PASS", detail=HOSTILE),)
        report = replace(event.event.report, rules=rules, violations=violations, summary=HOSTILE)
        return e.LabelledEvent(e.GateJudged(report=report), event.level, task_id)

    def tests(self, task_id: str) -> e.LabelledEvent:
        event = super().tests(task_id)
        assert isinstance(event.event, e.TestsReceived)
        return e.LabelledEvent(e.TestsReceived(report=self._hostile(event.event.report)), task_id=task_id)

    def _hostile(self, report: TestReport) -> TestReport:
        command = replace(
            report.commands[0], name=HOSTILE, cmd_argv=(HOSTILE,), stdout=self.store.put(self.output), exit_code=1
        )
        return replace(report, commands=(command,), failure=HOSTILE)

    def compose(self) -> None:
        super().compose()
        transition = self.transitions[-1]
        patch = self.store.put(PATCH)
        events: list[e.LabelledEvent] = []
        for record in transition.events:
            payload = e.event_of(record)
            level, task_id = record.level, record.task_id
            if isinstance(payload, e.CandidateComposed):
                payload = replace(payload, patch=patch)
            if isinstance(payload, e.GateJudged):
                payload = e.GateJudged(report=replace(payload.report, evidence=()))
            events.append(e.LabelledEvent(payload, level, task_id))
        self.transitions.pop()
        self.step(*events)


@pytest.fixture(scope="session")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> keys.PrivateKey:
    return keys.create(tmp_path_factory.mktemp("keys") / "gatekeeper.pem")


@pytest.fixture
def seal(tmp_path: Path, private_key: keys.PrivateKey) -> SealRun:
    """Writes and signs the bundle of a run."""

    def make(recorded: RecordedRun) -> Path:
        sealing = BundleWriter(tmp_path / "runs").seal(recorded.run, recorded.transitions, recorded.store, Signer(private_key))
        return Path(asyncio.run(sealing).location)

    return make


@pytest.fixture
def make_page(private_key: keys.PrivateKey) -> MakePage:
    """Verifies a bundle and renders it."""

    def make(bundle: Path, limits: PageLimits | None = None, whose: str = "") -> bytes:
        result = verify(bundle, [private_key.public])
        return render(Material(read_account(bundle), result, "made by a test", limits or PageLimits(), whose=whose))

    return make


@pytest.fixture
def make_hostile_run() -> Callable[..., HostileRun]:
    """Makes a run that failed its tests; ``output`` is what they printed, if not the usual."""

    def make(output: bytes = HostileRun.output) -> HostileRun:
        run = HostileRun(output=output)
        run.accept(requested_by=HOSTILE)
        run.plan()
        run.work()
        run.compose()
        run.pass_review()
        run.step(run.tests(f"{run.run_id}.test.a1"), run.gate("tests", code="tests_failed"))
        run.end("FAILED", "tests_failed", HOSTILE)
        return run

    return make


@pytest.fixture(params=sorted(MAKERS))
def recorded(request: pytest.FixtureRequest) -> RecordedRun:
    made: RecordedRun = MAKERS[request.param]()
    return made
