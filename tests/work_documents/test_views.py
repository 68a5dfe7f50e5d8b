"""Brief, blocked, decisions, trail and provenance: the facts of a run, and nothing beside them."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from gatewright.contracts import Blocked, Brief, DecisionsLog, ProvenanceManifest, RevisionTrail, codec
from gatewright.contracts.records import FileRecord
from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, Surroundings
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.decisions import as_markdown, decisions_of
from gatewright.evidence.projection.history import RunHistory, ended_history, evidence_records
from gatewright.evidence.projection.manifest import file_record
from gatewright.evidence.projection.materials import materialize
from gatewright.rules.blocked.asking import check, refuse_illegal
from gatewright.run import events as e
from gatewright.view.revisions import trail_of
from gatewright.work_documents.blocked import blocked_of
from gatewright.work_documents.brief import brief_of
from gatewright.work_documents.provenance import provenance_of
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_failed, make_fixed, make_success


def history_of(recorded: RecordedRun) -> RunHistory:
    return ended_history(recorded.run, evidence_records(recorded.transitions))


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_run_can_be_shown(name: str) -> None:
    run = MAKERS[name]()
    log = decisions_of(run.run, run.records)
    assert codec.decode(codec.encode(log), DecisionsLog) == log
    trail = trail_of(run.run, run.records)
    assert codec.decode(codec.encode(trail), RevisionTrail) == trail
    manifest = provenance_of(history_of(run), {})
    assert codec.decode(codec.encode(manifest), ProvenanceManifest) == manifest


def test_brief_is_the_order_and_not_its_outcome() -> None:
    run = make_success()
    brief = brief_of(run.run, run.records)
    assert codec.decode(codec.encode(brief), Brief) == brief
    assert run.run.contract is not None
    assert brief.spec.scope.files_owned == run.run.contract.allowed_paths
    assert brief.verify_command == "python -m pytest 'a b' && ruff check"
    assert brief.done_criteria == "exit code 0: unit, lint"
    assert {"policy", "diff", "reviewer", "tests", "landing"} <= set(brief.audit_gates)
    assert not any(words.startswith(("Landing", "End")) for words in brief.key_decisions)


def test_mission_is_cut_and_the_purpose_is_whole() -> None:
    run = make_success()
    assert run.run.contract is not None
    inputs = replace(run.run.contract.inputs, spec="word " * 100)
    brief = brief_of(replace(run.run, contract=replace(run.run.contract, inputs=inputs)), run.records)
    assert len(brief.mission) == 200
    assert codec.decode(codec.encode(brief), Brief) == brief


def test_run_without_contract_or_proof_has_no_brief() -> None:
    run = make_success()
    with pytest.raises(MalformedError) as refusal:
        brief_of(replace(run.run, contract=None), run.records)
    assert refusal.value.reason == "no_contract"
    assert run.run.contract is not None
    nothing = replace(run.run.contract, acceptance_tests=(AcceptanceTest(name="x", cmd="true", must_pass=False),))
    with pytest.raises(MalformedError) as refusal:
        brief_of(replace(run.run, contract=nothing), run.records)
    assert refusal.value.reason == "no_verify_command"


def test_decisions_are_in_order_and_each_names_its_event_and_falsifier() -> None:
    run = make_fixed()
    decisions = decisions_of(run.run, run.records).decisions
    titles = [each.title for each in decisions]
    assert titles == [
        *(
            "Baseline",
            "Contract",
            "Split",
            "Candidate",
            "Refused by the reviewer gate",
            "Repair",
            "Candidate",
            "Landing",
            "End",
        ),
    ]
    assert [each.event for each in decisions] == sorted(each.event for each in decisions)
    assert all(each.falsifier for each in decisions)
    assert {each.classification for each in decisions} == {"MEDIUM"}, "one shard, two rounds"
    assert [each.by for each in decisions[:3]] == ["gatekeeper", "pm", "techlead"]
    assert decisions[1].decision.startswith("change src, docs")
    assert "- **Decision:** attempt 2 is ordered (gatekeeper)" in as_markdown(decisions_of(run.run, run.records))


def test_cured_repair_has_its_packet_and_only_the_verdicts_after_it() -> None:
    run = make_fixed()
    (item,) = trail_of(run.run, run.records).items
    assert (item.packet.attempt, item.packet.reason, item.packet.source) == (2, "review_failed", "reviewer")
    assert [finding.code for finding in item.packet.findings] == ["review_failed"]
    assert item.packet.allowed_paths == ("src", "docs")
    assert item.state == "cured"
    assert (item.review, item.tests) == ("PASS", "PASS")
    assert [(each.task_id.rpartition(".")[2], each.accepted) for each in item.responses] == [("a2", True)]


def test_repair_under_way_is_active_and_its_old_review_does_not_count() -> None:
    run = RecordedRun()
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.fail_review()
    (item,) = trail_of(run.run, run.records).items
    assert (item.state, item.review, item.tests, item.responses) == ("active", None, None, ())


def test_repair_that_was_never_judged_is_abandoned() -> None:
    run = RecordedRun()
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.fail_review()
    run.end("ABORTED", "aborted", "enough")
    (item,) = trail_of(run.run, run.records).items
    assert item.state == "abandoned"


def test_waiting_for_locks_is_a_legal_block() -> None:
    run = RecordedRun()
    run.accept()
    run.step(e.LabelledEvent(e.LocksWaiting(holders=("run-other0000",)), "WARN"))
    blocked = blocked_of(run.run, run.records)
    assert codec.decode(codec.encode(blocked), Blocked) == blocked
    assert "run-other0000" in blocked.question
    assert check(blocked) == ()
    refuse_illegal(blocked)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_ended_run_is_not_blocked(name: str) -> None:
    run = MAKERS[name]()
    with pytest.raises(MalformedError) as refusal:
        blocked_of(run.run, run.records)
    assert refusal.value.reason == "not_blocked"


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"can_resume_without_answer": False}, "/can_resume_without_answer"),
        ({"best_guess": " "}, "/best_guess"),
        ({"fallback_action": " "}, "/fallback_action"),
        ({"question": "Three options exist. Which would you prefer?"}, "/question"),
        ({"question": "Should I proceed?"}, "/question"),
        ({"question": "I'd like to confirm before proceeding."}, "/question"),
    ],
)
def test_preference_or_idle_wait_is_no_block(changes: dict[str, object], pointer: str) -> None:
    blocked = Blocked(
        session="run-0123456789",
        blocked_at="2026-01-02T00:00:00Z",
        question="Where is the credential?",
        best_guess="in the vault",
        fallback_action="the rest is done",
        can_resume_without_answer=True,
        human_required_for="credential",
    )
    with pytest.raises(MalformedError) as refusal:
        refuse_illegal(replace(blocked, **changes))
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


async def test_provenance_names_every_file_that_a_task_handed_over_with_its_digest() -> None:
    run = make_success()
    history = history_of(run)
    files = {path: file_record(path, data) for path, data in (await materialize(history, run.store)).items()}
    manifest = provenance_of(history, files)
    assert [task.task_id for task in manifest.tasks] == [*history.results, *history.tests]
    named = {output.path: output for task in manifest.tasks for output in task.outputs}
    for task_id in history.results:
        assert layout.task_patch(task_id) in named
        assert layout.task_result(task_id) in named
    assert all(files[path].sha256 == output.sha256 for path, output in named.items())
    assert {output.classification for output in named.values()} == {"internal"}
    assert {output.pii for output in named.values()} == {None}, "nobody has looked"


def test_provenance_names_image_sandbox_and_variables_of_both_roles() -> None:
    facts = {"sandbox": "bubblewrap", "version": "0.11.0"}
    image = f"ghcr.io/shop/tests@sha256:{'a' * 64}"
    known = Surroundings(versions={}, host={}, sandbox=facts, image=image, variables=("HOME", "PATH"))
    history = history_of(make_success())
    results = {task_id: replace(each, surroundings=known) for task_id, each in history.results.items()}
    tests = {task_id: replace(each, surroundings=known) for task_id, each in history.tests.items()}
    ordered = {}
    for task_id, task in history.run.tasks.items():
        contract = task.contract and replace(task.contract, executor=Executor(kind="command", commands=("make",)))
        ordered[task_id] = replace(task, contract=contract)
    run = replace(history.run, tasks=ordered)
    tasks = provenance_of(changed(history, run=run, results=results, tests=tests), {}).tasks
    assert {task.image_digest for task in tasks} == {f"sha256:{'a' * 64}"}
    assert [(task.sandbox, task.sandbox_facts, task.variables) for task in tasks] == [
        ("bubblewrap", facts, ("HOME", "PATH")) for _ in tasks
    ]
    silent = {task_id: replace(each, surroundings=None) for task_id, each in history.results.items()}
    bare = {task_id: replace(each, surroundings=None) for task_id, each in history.tests.items()}
    unknown = provenance_of(changed(history, run=run, results=silent, tests=bare), {}).tasks
    given = provenance_of(changed(history, results=results, tests=bare), {}).tasks
    assert {(each.image_digest, each.sandbox_facts, each.variables) for each in (*unknown, *given)} == {(None, None, None)}


def test_what_a_gate_found_a_secret_in_is_restricted() -> None:
    run = make_failed()
    history = history_of(run)
    (task_id,) = (gate.task_id for gate in history.gates if gate.gate == "diff" and gate.verdict == "FAIL")
    assert task_id is not None
    secret = Violation(code="secret_found", rule="secrets.aws", detail="looks like a secret")
    gates = tuple(replace(gate, violations=(secret,)) if gate.verdict == "FAIL" else gate for gate in history.gates)
    path = layout.task_patch(task_id)
    listed = {path: FileRecord(path=path, size=1, sha256="0" * 64)}
    manifest = provenance_of(changed(history, gates=gates), listed)
    outputs = [output for task in manifest.tasks if task.task_id == task_id for output in task.outputs]
    assert [(output.path, output.classification) for output in outputs] == [(path, "restricted")]
