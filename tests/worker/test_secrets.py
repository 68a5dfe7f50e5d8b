"""What a worker stores when its command, or its patch, is about credentials: nothing that holds one."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from gatewright.contracts import TaskResult, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Executor
from gatewright.services.worker.handler import WorkerHandler
from tests.attacks import planted
from tests.handler_fixture import HandlerFixture

HALVES = f"{planted.GITHUB[:10]!r} + {planted.GITHUB[10:]!r}"


async def work(fixture: HandlerFixture, worker: WorkerHandler, script: str) -> TaskResult:
    fixture.baseline = fixture.repository.commit({"tools/job.py": script.encode()})
    contract = fixture.contract(executor=Executor(kind="command", commands=("python3 tools/job.py",)))
    result = await worker.handle(contract, fixture.context())
    return codec.decode(codec.encode(result), TaskResult)


def everything(fixture: HandlerFixture, result: TaskResult) -> bytes:
    """All that was stored or said."""
    return b"\n".join([*fixture.artifacts.stored.values(), codec.encode(result)])


async def test_output_is_stored_without_its_secrets_and_with_a_record(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, f"print('using')\nprint({HALVES})\nopen('src/a.py', 'w').write('x = 3\\n')\n")
    stored = {artifact.name: fixture.artifacts.stored[artifact.uri] for artifact in result.artifacts}
    assert result.status == "SUCCESS"
    assert stored["stdout"] == b"using\n[redacted:github_token]\n"
    assert json.loads(stored["redactions"]) == [{"place": "stdout", "rule": "github_token", "count": 1, "line": 2}]
    assert planted.GITHUB.encode() not in everything(fixture, result)


async def test_a_patch_with_a_secret_is_never_stored(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, f"open('src/a.py', 'w').write('key = ' + {HALVES} + '\\n')\n")
    assert (result.status, result.git.patch) == ("FAILED", "")
    assert result.failure == "secret_found: src/a.py:1 looks like a secret (github_token)"
    assert planted.GITHUB.encode() not in everything(fixture, result)


@pytest.mark.parametrize("value", [planted.GITHUB, planted.SENDGRID], ids=["patterns", "catalogue"])
async def test_the_last_words_of_a_command_are_reported_without_secrets(
    value: str, fixture: HandlerFixture, worker: WorkerHandler
) -> None:
    halves = f"{value[:10]!r} + {value[10:]!r}"
    result = await work(fixture, worker, f"import sys\nsys.exit('cannot log in with ' + {halves})\n")
    assert result.status == "FAILED"
    assert (result.failure or "").startswith("executor_failed: exit 1: cannot log in with [redacted:")
    assert value.encode() not in everything(fixture, result)


async def test_a_file_named_by_a_secret_is_not_named(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, f"open('src/' + {HALVES}, 'w').write('x')\n")
    assert result.failure == "secret_found: a file's name looks like a secret (github_token)"
    assert planted.GITHUB.encode() not in everything(fixture, result)


async def test_a_reply_is_an_input_and_kept_as_it_was_given(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    reply = f"```python\n# src/a.py\nkey = '{planted.GITHUB}'\n```\n".encode()
    held = fixture.artifacts.hold("reply-1", reply)
    contract = fixture.contract(
        executor=Executor(kind="reply", artifacts=("reply-1",)), inputs=Inputs(spec="x", artifacts=(held,))
    )
    result = await worker.handle(contract, fixture.context())
    assert (result.failure or "").startswith("secret_found: ")
    kept = [artifact.uri for artifact in result.artifacts if planted.GITHUB.encode() in fixture.artifacts.stored[artifact.uri]]
    assert kept == [held.uri]


@pytest.mark.parametrize(
    ("kind", "answer", "line"),
    [
        (
            "patch",
            "From: Ana\nSubject: {}\n\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n",
            "line 2 of the patch",
        ),
        ("reply", "I used {} for it.\n```python\n# src/a.py\nx = 2\n```\n", "line 1 of the reply"),
    ],
    ids=["patch", "reply"],
)
async def test_secret_beside_the_files_of_an_answer_is_refused(
    kind: Literal["patch", "reply"], answer: str, line: str, fixture: HandlerFixture, worker: WorkerHandler
) -> None:
    held = fixture.artifacts.hold("answer", answer.format(planted.GITHUB).encode())
    contract = fixture.contract(executor=Executor(kind=kind, artifacts=("answer",)), inputs=Inputs(spec="x", artifacts=(held,)))
    result = await worker.handle(contract, fixture.context())
    assert (result.failure, result.git.patch) == (f"secret_found: {line} looks like a secret (github_token)", "")
