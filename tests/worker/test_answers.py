"""The patch and reply executors, and what all results have in common."""

from __future__ import annotations

import pytest

from gatewright.contracts import TaskResult, WorkReport, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Artifact, Executor, Repository
from gatewright.errors import ArtifactError, GitError
from gatewright.services.worker.handler import WorkerHandler
from gatewright.services.worker.report import MAX_LISTED
from tests.handler_fixture import HandlerFixture

PATCH = Executor(kind="patch", artifacts=("answer",))
REPLY = Executor(kind="reply", artifacts=("answer",))


async def work(
    fixture: HandlerFixture, worker: WorkerHandler, executor: Executor, answer: bytes, **changes: object
) -> TaskResult:
    inputs = Inputs(spec="do it", artifacts=(fixture.artifacts.hold("answer", answer),))
    contract = fixture.contract(**{"executor": executor, "inputs": inputs, **changes})
    return codec.decode(codec.encode(await worker.handle(contract, fixture.context())), TaskResult)


def code(result: TaskResult) -> str:
    assert result.status == "FAILED"
    return (result.failure or "").partition(":")[0]


async def test_a_patch_is_handed_over_byte_for_byte(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    tree, patch = await fixture.changed({"src/a.py": b"x = 2\n", "src/new.py": b"n\n"})
    odd = b"From: Ana <ana@example.org>\nSubject: [PATCH] words first\n\n---\n" + patch
    result = await work(fixture, worker, PATCH, odd)
    assert (result.status, result.git.head_ref) == ("SUCCESS", tree)
    assert fixture.artifacts.stored[result.git.patch] == odd
    assert result.git.changed_files == ("src/a.py", "src/new.py")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (b"no patch at all\n", "patch_malformed"),
        (
            b"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-other\n+x\n",
            "patch_does_not_apply",
        ),
        (
            b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
            "patch_malformed",
        ),
        (
            b"diff --git a/.git/x b/.git/x\nnew file mode 100644\n--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+x\n",
            "patch_does_not_apply",
        ),
    ],
    ids=["no patch", "other text", "above the repository", "git's own folder"],
)
async def test_a_patch_that_cannot_be_applied_is_a_failure(
    fixture: HandlerFixture, worker: WorkerHandler, patch: bytes, expected: str
) -> None:
    assert code(await work(fixture, worker, PATCH, patch)) == expected


async def test_an_empty_patch_is_no_change(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, PATCH, b"")
    assert (result.status, result.git.patch, result.git.changed_files) == ("SUCCESS", "", ())


async def test_files_of_a_reply_are_written_over_the_baseline(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    reply = "Update file `src/a.py`:\n```python\nx = 2\n```\nCreate file `src/new.py`:\n```python\nn\n```\n"
    result = await work(fixture, worker, REPLY, reply.encode())
    tree, patch = await fixture.changed({"src/a.py": b"x = 2\n", "src/new.py": b"n\n"})
    assert (result.status, result.git.head_ref) == ("SUCCESS", tree)
    assert fixture.artifacts.stored[result.git.patch] == patch
    assert {artifact.name for artifact in result.artifacts} == {"work_report", "reply"}


async def test_a_file_that_was_executable_stays_so(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, REPLY, b"Update file `src/run.sh`:\n```sh\n#!/bin/sh\ntrue\n```\n")
    mirror = await fixture.mirror()
    tree = await mirror.apply(fixture.baseline, fixture.artifacts.stored[result.git.patch])
    (change,) = await mirror.changes(fixture.baseline, tree)
    assert (change.old_mode, change.new_mode) == ("100755", "100755")


async def test_a_reply_out_of_scope_is_handed_over_and_named(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, REPLY, b"Create file `.github/workflows/x.yml`:\n```yaml\na: 1\n```\n")
    assert result.status == "SUCCESS"
    assert result.gates.diff_gate.violations == ("path_out_of_scope: .github/workflows/x.yml",)


@pytest.mark.parametrize(
    "reply",
    [
        b"I am sorry.",
        b"Create file `../../etc/passwd`:\n```\nx\n```\n",
        b"Create file `.git/config`:\n```\nx\n```\n",
        b"Create file `src`:\n```\nx\n```\n",
        b"Create file `src/a.py/b.py`:\n```\nx\n```\n",
        b"\xff\xfe",
    ],
)
async def test_a_reply_that_cannot_be_used_is_a_failure(fixture: HandlerFixture, worker: WorkerHandler, reply: bytes) -> None:
    result = await work(fixture, worker, REPLY, reply)
    assert code(result) == "reply_not_usable"
    assert result.git.patch == ""


async def test_a_reply_does_not_write_through_a_symbolic_link(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    (fixture.repository.path / "src" / "link.py").symlink_to("/etc/passwd")
    (fixture.repository.path / "src" / "dir").symlink_to("/etc")
    fixture.baseline = fixture.repository.commit({})
    for path in ("src/link.py", "src/dir/passwd"):
        assert code(await work(fixture, worker, REPLY, f"Update file `{path}`:\n```\nx\n```\n".encode())) == "reply_not_usable"


async def test_an_artifact_that_contradicts_the_contract_is_not_used(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    held = fixture.artifacts.hold("answer", b"one")
    other = fixture.artifacts.hold("answer", b"two")
    forged = Artifact(name="answer", uri=held.uri, sha256=other.sha256)
    assert (
        code(await work(fixture, worker, PATCH, b"", inputs=Inputs(spec="x", artifacts=(forged,))))
        == "artifact_digest_mismatch"
    )
    both = Inputs(spec="x", artifacts=(held, other))
    assert code(await work(fixture, worker, PATCH, b"", inputs=both)) == "artifact_ambiguous"
    assert code(await work(fixture, worker, PATCH, b"", inputs=Inputs(spec="x", artifacts=()))) == "artifact_missing"
    elsewhere = Artifact(name="answer", uri="file:///etc/passwd", sha256="a" * 64)
    assert code(await work(fixture, worker, PATCH, b"", inputs=Inputs(spec="x", artifacts=(elsewhere,)))) == "bad_artifact_uri"


async def test_what_another_try_may_cure_is_left_to_the_runner(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    lost = Artifact(name="answer", uri="artifact:sha256:" + "0" * 64, sha256="0" * 64)
    with pytest.raises(ArtifactError):
        await work(fixture, worker, PATCH, b"", inputs=Inputs(spec="x", artifacts=(lost,)))
    with pytest.raises(GitError):
        await work(fixture, worker, PATCH, b"", repository=Repository(url=str(fixture.state / "nowhere")))


async def test_a_contract_without_a_repository_is_a_failure(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    assert code(await work(fixture, worker, PATCH, b"", repository=None)) == "repository_missing"


async def test_a_large_change_is_counted_and_not_all_listed(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    _, patch = await fixture.changed({f"many/f{n}": b"" for n in range(MAX_LISTED + 5)})
    result = await work(fixture, worker, PATCH, patch)
    assert len(result.git.changed_files) == MAX_LISTED
    assert len(result.gates.diff_gate.violations) == MAX_LISTED
    assert result.summary.startswith(f"{MAX_LISTED + 5} files changed")


async def test_the_work_report_refers_to_the_same_patch(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    result = await work(fixture, worker, PATCH, patch)
    (reference,) = [artifact for artifact in result.artifacts if artifact.name == "work_report"]
    report = codec.decode(fixture.artifacts.stored[reference.uri], WorkReport)
    assert (report.task_id, report.status, report.patch_ref) == (result.task_id, "success", result.git.patch)
    assert report.diff_summary == "1 file changed: 1 modified"
