"""What a bundle holds, and that it is a function of the run's events and artifacts alone."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace as copy
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import EvidenceReport, ReviewReport, TaskResult, TestReport, codec
from gatewright.contracts.schemas import fault_report, names
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import ArtifactError, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import ended_history, evidence_records, evidence_transitions
from gatewright.evidence.projection.materials import materialize
from gatewright.evidence.projection.names import name_list
from gatewright.run import events as e
from tests.evidence.recorded_artifacts import Store
from tests.evidence.recorded_runs import MAKERS, NAMES, RecordedRun, make_failed, make_fixed, make_success


async def project(recorded: RecordedRun) -> dict[str, bytes]:
    return await materialize(ended_history(recorded.run, evidence_records(recorded.transitions)), recorded.store)


@pytest.mark.parametrize("name", sorted(MAKERS))
async def test_every_run_has_every_required_file(name: str) -> None:
    files = await project(MAKERS[name]())
    assert set(layout.REQUIRED) - files.keys() == {layout.MANIFEST}


async def test_a_run_without_contract_names_its_missing_files() -> None:
    files = await project(MAKERS["unplanned"]())
    assert files[layout.CONTRACT] == b"null"
    assert layout.REQUEST in files
    report = codec.decode(files[layout.EVIDENCE_REPORT], EvidenceReport)
    assert report.status == "fail"
    assert report.missing[0].startswith("contract.json: no contract was made: the run ended as FAILED (request_incomplete")


@pytest.mark.parametrize("name", sorted(MAKERS))
async def test_every_document_is_valid_under_its_json_schema(name: str) -> None:
    schemas = {kind: schema for schema, kind in codec.DOCUMENTS.items()}
    checked = 0
    for path, data in (await project(MAKERS[name]())).items():
        kind = layout.kind_of(path)
        assert not path.endswith(".json") or kind or layout.is_work_report(path) or path in {layout.META, layout.GIT_LANDED}
        if kind and schemas[kind] in names() and data != layout.NO_CONTRACT:
            assert fault_report(schemas[kind], data) == (), path
            checked += 1
    assert checked


async def test_the_same_events_give_the_same_bytes() -> None:
    assert await project(make_success()) == await project(make_success())


async def test_the_seal_is_no_part_of_the_bundle() -> None:
    recorded = make_success()
    before = await project(recorded)
    steps = evidence_transitions(recorded.transitions)
    recorded.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="0" * 64, signer="key", location="/srv")))
    assert await project(recorded) == before
    assert evidence_transitions(recorded.transitions) == steps


async def test_an_open_run_has_no_bundle() -> None:
    recorded = RecordedRun()
    recorded.accept()
    with pytest.raises(MalformedError) as caught:
        await project(recorded)
    assert caught.value.reason == "run_not_ended"


async def test_git_files_are_the_same_bytes_as_those_of_the_root() -> None:
    files = await project(make_success())
    assert files["git/patch.diff"] == files["patch.diff"]
    assert files["patch.diff"].startswith(b"diff --git a/src/a.py b/src/a.py\n")
    assert files["git/diff_name_only.txt"] == files["diff_name_only.txt"]


def test_changed_paths_are_listed_as_git_lists_them(tmp_path: Path) -> None:
    odd = [*NAMES, b"new\nline", b"back\\slash", b"\x7f\x01", b"bad\xff", b"a b", b"-rf", b"#x"]
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    blob = subprocess.run([*git, "hash-object", "-w", "--stdin"], input=b"", capture_output=True, check=True).stdout.strip()
    entries = b"".join(b"100644 %b 0\t%b\0" % (blob, path) for path in odd)
    subprocess.run([*git, "update-index", "-z", "--index-info"], input=entries, check=True)
    empty = subprocess.run([*git, "mktree"], input=b"", capture_output=True, check=True).stdout.decode().strip()
    listed = subprocess.run([*git, "diff", "--cached", "--name-only", empty], capture_output=True, check=True).stdout
    assert name_list(b"".join(path + b"\0" for path in odd)) == listed


async def test_the_final_result_reports_gates_and_not_worker_claims() -> None:
    files = await project(make_failed())
    result = codec.decode(files[layout.TASK_RESULT], TaskResult)
    assert result.status == "FAILED"
    assert result.failure == "path_out_of_scope: diff gate: etc/passwd: outside the contract's paths"
    assert not result.gates.diff_gate.passed
    assert result.gates.diff_gate.violations == ("path_out_of_scope: etc/passwd: outside the contract's paths",)
    assert result.gates.policy_gate.passed
    assert result.gates.tests_gate.violations == ("not_evaluated",)


async def test_a_cured_failure_is_kept_but_does_not_decide() -> None:
    files = await project(make_fixed())
    result = codec.decode(files[layout.TASK_RESULT], TaskResult)
    assert (result.status, result.attempt, result.gates.review_gate.passed) == ("SUCCESS", 2, True)
    run = "run-a31d0eeaa8061bb92728"
    first, second = (codec.decode(files[f"reviews/{run}.review.a{n}.json"], ReviewReport) for n in (1, 2))
    assert (first.verdict, second.verdict) == ("FAIL", "PASS")
    assert files[layout.REVIEW_REPORT] == files[f"reviews/{run}.review.a2.json"]
    assert f"results/{run}.plan.w01/result.json" in files
    assert f"results/{run}.plan.w01.a2/result.json" in files
    superseded = files[layout.PATCH].replace(b"+round 2\n", b"+round 1\n")
    assert superseded in {data for path, data in files.items() if path.startswith("artifacts/")}


async def test_stand_ins_can_not_be_taken_for_passed_reports() -> None:
    files = await project(MAKERS["aborted"]())
    review = codec.decode(files[layout.REVIEW_REPORT], ReviewReport)
    tests = codec.decode(files[layout.TEST_REPORT], TestReport)
    assert (review.verdict, review.scope_check.passed, tests.status) == ("BLOCKED", False, "SKIPPED")
    assert review.reviewer.agent_id == tests.runner.agent_id == "gatekeeper"
    result = codec.decode(files[layout.TASK_RESULT], TaskResult)
    assert (result.status, result.failure) == ("BLOCKED", "aborted: changed my mind")


async def test_a_refused_patch_is_in_the_bundle() -> None:
    files = await project(make_failed())
    assert files["patches/run-a31d0eeaa8061bb92728.plan.w01.diff"] == b"--- a patch of etc/passwd\n"


async def test_the_output_of_all_commands_is_there_together_and_one_by_one() -> None:
    files = await project(make_success())
    folder = "ci/run-a31d0eeaa8061bb92728.test.a1"
    assert files["tests/command.txt"] == b"python -m pytest 'a b'\nruff check\n"
    assert files["tests/stdout.log"] == b"2 passed\nall clean\n"
    assert files["tests/stderr.log"] == files[f"{folder}/01-stderr.log"] == b"a warning\n"
    assert files[f"{folder}/02-stderr.log"] == b""


async def test_inputs_attachments_and_judged_reports_are_kept_once_by_digest() -> None:
    recorded = make_success()
    files = await project(recorded)
    kept = sorted(data for path, data in files.items() if path.startswith("artifacts/"))
    answers = [b"the model's answer\n", b"its other answer\n"]
    reports = [codec.encode(document) for document in (recorded.run.review, recorded.run.tests) if document is not None]
    assert kept == sorted([b"<coverage/>\n", b"more\n", *answers, *reports, b"".join(n + b"\0" for n in NAMES)])


async def test_a_transcript_lies_where_the_specification_wants_it() -> None:
    recorded = make_success()
    extra = tuple(recorded.artifact(name, name.encode()) for name in ("codex_events", "codex_transcript", "codex_thread_id"))
    with_result(recorded, lambda result: replace(result, artifacts=(*result.artifacts, *extra)))
    files = await project(recorded)
    folder = "codex/run-a31d0eeaa8061bb92728.plan.w01"
    assert files[f"{folder}/events.jsonl"] == b"codex_events"
    assert files[f"{folder}/transcript.md"] == b"codex_transcript"
    assert files[f"{folder}/thread_id.txt"] == b"codex_thread_id"


async def test_a_missing_claimed_artifact_is_named_and_the_bundle_continues() -> None:
    recorded = make_success()
    ghost = Artifact(name="notes", uri=f"artifact:sha256:{'9' * 64}", sha256="9" * 64)
    with_result(recorded, lambda result: replace(result, artifacts=(ghost,)))
    report = codec.decode((await project(recorded))[layout.EVIDENCE_REPORT], EvidenceReport)
    assert report.status == "fail"
    assert report.missing == (f"artifacts/{'9' * 64}: {ghost.uri} is not in the artifact store",)


async def test_a_bundle_is_not_made_without_the_gatekeepers_own_patch() -> None:
    recorded = make_success()
    assert recorded.run.candidate
    del recorded.store.blobs[recorded.run.candidate.patch]
    with pytest.raises(ArtifactError):
        await project(recorded)


async def test_bytes_with_another_digest_are_not_taken() -> None:
    recorded = make_success()
    assert recorded.run.candidate
    recorded.store.blobs[recorded.run.candidate.patch] = b"forged"
    with pytest.raises(ArtifactError):
        await project(recorded)


async def test_an_artifact_name_that_is_a_path_stays_inside_the_bundle() -> None:
    recorded = make_success()
    extra = recorded.artifact("../../../etc/cron.d/x", b"owned\n")
    with_result(recorded, lambda result: replace(result, artifacts=(extra,)))
    files = await project(recorded)
    assert [path for path, data in files.items() if data == b"owned\n"] == [f"artifacts/{extra.sha256}"]


@pytest.mark.parametrize("uri", ["artifact:sha256:../../x", "file:///etc/passwd", "artifact:sha256:" + "A" * 64])
async def test_a_uri_that_names_no_artifact_is_never_asked_for(uri: str) -> None:
    recorded = make_success()
    with_result(recorded, lambda result: replace(result, git=replace(result.git, patch=uri)))
    report = codec.decode((await project(recorded))[layout.EVIDENCE_REPORT], EvidenceReport)
    assert uri not in recorded.store.asked
    assert any(line.startswith("patches/") and "is not an artifact" in line for line in report.missing)


@pytest.mark.parametrize(
    "task_id", ["../escape", "a/b", "..", ".hidden", "", "x" * 129, "nul\0", "new\nline", "dot.", "ünicode", "a\\b"]
)
def test_a_hostile_task_id_never_becomes_a_file_name(task_id: str) -> None:
    for place in (layout.task_contract, layout.task_result, layout.task_patch, layout.review, layout.test, layout.task_error):
        with pytest.raises(MalformedError) as caught:
            place(task_id)
        assert caught.value.reason == "unsafe_name"
    assert layout.gate_report(1, "diff", task_id) == "reports/gates/001-diff.json"


async def test_a_hostile_task_id_stops_the_projection() -> None:
    recorded = RecordedRun()
    recorded.accept()
    recorded.plan()
    recorded.step(recorded.dispatch("../../escape", "reviewer", recorded.contract(task_id="../../escape")))
    recorded.end("FAILED", "review_failed", "no")
    with pytest.raises(MalformedError) as caught:
        await project(recorded)
    assert caught.value.reason == "unsafe_name"


async def test_a_file_can_not_be_the_folder_of_another() -> None:
    recorded = RecordedRun()
    recorded.accept()
    recorded.plan()
    tests = "a-test-of.json"
    recorded.step(
        recorded.dispatch("a-test-of", "testrunner", recorded.contract(task_id="a-test-of")), recorded.tests("a-test-of")
    )
    recorded.step(recorded.dispatch(tests, "testrunner", recorded.contract(task_id=tests)), recorded.tests(tests))
    recorded.end("FAILED", "tests_failed", "no")
    with pytest.raises(MalformedError, match="inside another file"):
        await project(recorded)


async def test_nothing_is_asked_of_the_store_but_what_is_needed() -> None:
    recorded = make_success()
    await project(recorded)
    assert sorted(recorded.store.asked) == sorted(recorded.store.blobs)


async def test_meta_holds_no_fact_of_the_host() -> None:
    files = await project(copy(make_success(), store=Store(make_success().store.blobs)))
    assert set(json.loads(files[layout.META])) <= {
        "run_id", "requested_by", "repository_url", "submitted_sha256", "policy_sha256", "policies", "versions", "host",
        "publisher",
        "acted", "executor", "sandbox",
    }  # fmt: skip


def with_result(recorded: RecordedRun, change: object) -> None:
    """Change the first worker's result, and relink what comes after."""
    events: list[list[e.LabelledEvent]] = []
    done = False
    for transition in recorded.transitions:
        step = []
        for record in transition.events:
            payload = e.event_of(record)
            if isinstance(payload, e.TaskFinished) and not done:
                assert callable(change)
                payload, done = replace(payload, result=change(payload.result)), True
            step.append(e.LabelledEvent(payload, record.level, record.task_id, record.attempt, record.role))
        events.append(step)
    recorded.transitions.clear()
    for step in events:
        recorded.step(*step)
