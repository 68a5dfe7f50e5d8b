"""A reviewer that wants to change what it reviews: what it could have written, and what becomes of what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.bus.permissions import access_of
from gatewright.bus.port import Message
from gatewright.bus.topology import TASK_ROLES, result_subject
from gatewright.contracts import ReviewReport, codec
from gatewright.contracts.reports import Finding
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import MalformedError
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.gate_checks import expected_task, required_checks
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.services.gatekeeper.intake.result_consumer import answer_of
from gatewright.services.reviewer.handler import Settings, make_handler
from gatewright.tasks.protocol import DeliveredTask, TaskRef, make_answer
from tests.attacks.real_gate import RUN, RealGate, codes, make_review, open_gate
from tests.git.repositories import MakeRepository, Repository
from tests.handler_fixture import make_handler_fixture

REVIEWER = Agent(role="REVIEWER", agent_id="reviewer-1")

#: What a reviewer under somebody else's control tries, each in a folder of its own; prints what it could do.
INTRUDER = """
import json, os, subprocess, sys
from pathlib import Path
from gatewright.services.reviewer.handler import confine
from gatewright.services.reviewer.handler import Settings

home, target = Path(sys.argv[1]), Path(sys.argv[2])
how = confine(Settings(home=home))

def attempt(action):
    try:
        action()
    except OSError:
        return "refused"
    return "done"

def shell(*argv):
    if subprocess.run(argv, capture_output=True).returncode:
        raise OSError

results = {
    "own mirrors": attempt(lambda: (home / "reviewer/mirrors/note").write_text("x")),
    "own state": attempt(lambda: (home / "reviewer/note").write_text("x")),
    "other role": attempt(lambda: (home / "gatekeeper/mirrors/note").write_text("x")),
    "policies": attempt(lambda: (home / "policies/allow.json").write_text("{}")),
    "bundle": attempt(lambda: (home / "runs/run-0/events.jsonl").open("a").write("x")),
    "truncate": attempt(lambda: os.truncate(home / "runs/run-0/events.jsonl", 0)),
    "remove": attempt(lambda: (home / "runs/run-0/events.jsonl").unlink()),
    "rename": attempt(lambda: (home / "runs/run-0").rename(home / "reviewer/mirrors/run-0")),
    "link": attempt(lambda: (home / "runs/link").symlink_to("/etc/passwd")),
    "hard link": attempt(lambda: os.link(home / "runs/run-0/events.jsonl", home / "reviewer/mirrors/events")),
    "source": attempt(lambda: (target / "src/app.py").write_text("mine")),
    "commit": attempt(lambda: shell("git", "-C", str(target), "commit", "--allow-empty", "-m", "mine")),
    "push": attempt(lambda: shell("git", "-C", str(target), "push", str(target), "HEAD:refs/heads/mine")),
    "child": attempt(lambda: shell(sys.executable, "-c", f"open({str(home / 'child')!r}, 'w')")),
    "temporary": attempt(lambda: Path("/tmp/gatewright-intruder").write_text("x")),
}
print(json.dumps({"how": how, **results}))
"""


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(), tmp_path) as opened:
        await opened.compose(opened.patch({"src/app.py": b"two\n"}))
        yield opened


@pytest.fixture
def tree(gate: RealGate) -> str:
    assert gate.run.candidate is not None
    return gate.run.candidate.tree


def snapshot(repository: Repository) -> tuple[bytes, bytes, dict[str, bytes]]:
    """Refs, objects and files of a repository."""
    files = {str(path): path.read_bytes() for path in repository.path.rglob("*") if path.is_file() and ".git" not in path.parts}
    everything = repository.git("cat-file", "--batch-all-objects", "--batch-check")
    return repository.git("for-each-ref"), everything, files


def test_a_reviewer_process_can_write_to_its_mirrors_and_nowhere_else(first_repository: Repository, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in ("gatekeeper/mirrors", "policies", "runs/run-0"):
        (home / folder).mkdir(parents=True)
    (home / "runs/run-0/events.jsonl").write_text("{}\n")
    before = snapshot(first_repository)
    argv = [sys.executable, "-c", INTRUDER, str(home), str(first_repository.path)]
    finished = subprocess.run(argv, capture_output=True, text=True, check=True)
    results = json.loads(finished.stdout)
    if (how := results.pop("how")) != "landlock":
        pytest.skip(how)
    assert results.pop("own mirrors") == "done"
    assert set(results.values()) == {"refused"}, results
    assert (home / "runs/run-0/events.jsonl").read_text() == "{}\n"
    assert snapshot(first_repository) == before


async def test_a_review_leaves_nothing_behind_but_its_mirror(tmp_path: Path) -> None:
    fixture = make_handler_fixture(tmp_path, {"src/a.py": b"x = 1\n"})
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    before, files = snapshot(fixture.repository), {path for path in tmp_path.rglob("*") if "mirrors" not in path.parts}
    inputs = Inputs(spec="review it", artifacts=(fixture.artifacts.hold("candidate.patch", patch),))
    task = fixture.contract(task_type="REVIEW", task_id=f"{RUN}.review.a1", assigned_agent=REVIEWER, executor=None)
    stored = dict(fixture.artifacts.stored)
    report = await make_handler(Settings(home=fixture.state)).handle(replace(task, inputs=inputs), fixture.context())
    assert isinstance(report, ReviewReport)
    assert report.verdict == "PASS"
    assert "its writes were not confined by the kernel" in report.evidence
    assert snapshot(fixture.repository) == before
    assert fixture.artifacts.stored == stored
    new = {path for path in tmp_path.rglob("*") if "mirrors" not in path.parts} - files
    assert new == {fixture.state, fixture.state / "reviewer"}


async def test_a_review_of_another_tree_is_refused(gate: RealGate, tree: str) -> None:
    assert codes(await gate.review(make_review(tree))) == []
    for other in (gate.run.accepted.baseline_tree, "1" * 40, None):
        assert codes(await gate.review(replace(make_review(tree), tree=other))) == ["reviewer_wrong_tree"]


@pytest.mark.parametrize("reviewer", [Agent(role="REVIEWER", agent_id="worker-1"), Agent(role="WORKER", agent_id="other")])
async def test_who_implemented_does_not_review(reviewer: Agent, gate: RealGate, tree: str) -> None:
    assert codes(await gate.review(make_review(tree, reviewer=reviewer))) == ["reviewer_not_independent"]


async def test_a_reviewer_that_hands_over_a_patch_is_refused(gate: RealGate, tree: str) -> None:
    mine = await gate.bus.put_artifact(b"--- a/src/app.py\n+++ b/src/app.py\n")
    finding = Finding(code="style", message=f"better: {mine}", blocking=False)
    for changes in ({"evidence": (f"fixed.patch {mine}",)}, {"findings": (finding,)}, {"summary": "data:text/x-diff,mine"}):
        assert codes(await gate.review(make_review(tree, **changes))) == ["reviewer_produced_diff"]
    assert gate.run.candidate is not None
    assert codes(await gate.review(make_review(tree, evidence=(f"candidate.patch {gate.run.candidate.patch}",)))) == []


@pytest.mark.parametrize(
    "claim",
    [
        {"produced_diff": True},
        {"files": [{"path": "src/app.py", "content": "mine"}]},
        {"patch": "artifact:sha256:" + "0" * 64},
        {"artifacts": [{"name": "patch", "uri": "data:,x", "sha256": "0" * 64}]},
        {"git": {"patch": "x"}},
    ],
)
def test_a_review_that_claims_files_is_not_even_read(claim: dict[str, object]) -> None:
    data = msgspec.json.encode({**msgspec.to_builtins(make_review("1" * 40)), **claim})
    with pytest.raises(MalformedError):
        codec.decode(data, ReviewReport)


async def test_a_worker_result_from_a_reviewer_does_not_count(gate: RealGate) -> None:
    """Over the reviewer's own subject, about the worker's running task."""
    result = await gate.worked(gate.patch({"src/app.py": b"mine\n"}))
    run: Run = gate.run
    message = RoleReplied("reviewer", result, "forged")
    assert expected_task(run, message) is None
    assert required_checks(run, message) == ()
    with pytest.raises(MalformedError, match="may not answer"):
        make_answer("reviewer", DeliveredTask(gate.contract, TaskRef(RUN, f"{RUN}.review.a1"), 1, 60), result)


def test_a_reviewer_may_publish_only_reviews_and_its_claims() -> None:
    allowed = access_of("reviewer").publish
    assert set(allowed) == {result_subject("reviewer"), "gw.dead.reviewer", "gw.artifact.reviewer.>", "gw.claim.reviewer"}
    assert not {result_subject(role) for role in TASK_ROLES if role != "reviewer"} & set(allowed)


def test_the_subject_and_not_the_document_identifies_the_sender() -> None:
    data = codec.encode(make_review("1" * 40))
    answered = answer_of(Message(result_subject("worker"), data, {"Gw-Schema": "review_report.v1"}, sequence=1))
    assert (answered.role, type(answered.document)) == ("worker", ReviewReport)
