"""Publishers with names on a real server: what the server lets them say, and what the gatekeeper lets them have."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import upload_stream
from gatewright.client import Client
from gatewright.contracts import codec
from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.errors import DeniedError, LimitError, MalformedError
from gatewright.resources import policy_directory
from gatewright.run.state import run_id_of
from gatewright.tasks.dead_letter import CODE_HEADER
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, running_stack, slow_request
from tests.e2e.test_foreign_publishers import EXAMPLES, make_contract_file
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

LISTED: list[dict[str, Any]] = json.loads((policy_directory() / "publishers.json").read_text())["publishers"]
(SHIPPED,) = (rule for rule in LISTED if rule["name"] == "default")


@dataclass(frozen=True)
class GuardedStack(Stack):
    """A stack with policies of its own."""

    policies: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"GATEWRIGHT_POLICIES": str(self.policies)}


def make_policies(folder: Path, *publishers: dict[str, Any]) -> Path:
    folder.mkdir()
    for path in policy_directory().iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "organisation").mkdir()
    (folder / "publishers.json").write_text(json.dumps({"version": "1", "publishers": [*LISTED, *publishers]}))
    return folder


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedStack]:
    base = tmp_path_factory.mktemp("guarded")
    policies = make_policies(
        base / "policies",
        SHIPPED | {"name": "acme"},
        SHIPPED | {"name": "beta", "repositories": ["https://forge.example/beta"], "max_open_runs": 1},
        SHIPPED | {"name": "busy", "submissions": {"per_minute": 1, "burst": 1}},
    )
    stack = GuardedStack(base / "home", policies)
    made = stack.command(
        "keys", "bus", *(word for name in ("acme", "beta", "busy", "stranger") for word in ("--publisher", name))
    )
    assert made.returncode == 0, made.stdout + made.stderr
    with running_stack(stack.home, workers=1, stack=stack):
        yield stack


def client_of(stack: Stack, publisher: str) -> Any:
    identity = {"default": "publisher", "operator": "operator"}.get(publisher, f"publisher-{publisher}")
    return Client.connect(stack.state.address(identity))


async def test_a_named_publisher_has_its_run_done_and_sees_no_other(guarded: GuardedStack, make_project: MakeProject) -> None:
    request = slow_request(make_project(), 0.0)
    async with (
        client_of(guarded, "acme") as acme,
        client_of(guarded, "beta") as beta,
        client_of(guarded, "operator") as anybody,
    ):
        run_id = await acme.submit_request(request)
        status = await acme.ended(run_id, timeout=PATIENCE)
        assert (status.status, status.publisher, status.code) == ("SUCCESS", "acme", "ok")
        assert status.bundle is not None
        with pytest.raises(MalformedError, match=run_id):
            await beta.status(run_id)
        assert (await anybody.status(run_id)).bundle == status.bundle
    manifest = json.loads((Path(status.bundle.location) / "manifest.json").read_text())
    assert manifest["publisher"] == "acme"
    shown = await asyncio.to_thread(guarded.command, "show", run_id, "--verbose")
    assert "publisher  acme" in shown.stdout
    assert (await asyncio.to_thread(guarded.command, "verify", run_id)).returncode == 0


async def test_only_the_operator_publisher_reaches_runs_of_both(guarded: GuardedStack, make_project: MakeProject) -> None:
    slow = slow_request(make_project(), 30.0)
    async with client_of(guarded, "default") as plain, client_of(guarded, "operator") as operator:
        theirs, its = await operator.submit_request(slow), await plain.submit_request(slow)
        assert ((await operator.status(theirs)).publisher, (await operator.status(its)).publisher) == ("operator", "default")
        with pytest.raises(MalformedError, match=theirs):
            await plain.status(theirs)
        assert {run.publisher for run in (await plain.list_runs()).runs} == {"default"}
        await plain.abort(theirs, reason="not its own")
        letters = operator.bus.replay("gw.dead.gatekeeper", follow=True)
        async with asyncio.timeout(PATIENCE), contextlib.aclosing(letters):
            refused = await anext(letters)
        assert (refused.headers[CODE_HEADER], theirs in refused.data.decode()) == ("abort_not_allowed", True)
        assert (await operator.status(theirs)).status == "RUNNING"
        await plain.abort(its, reason="its own")
        assert (await plain.ended(its, timeout=PATIENCE)).status == "ABORTED"
        third = await plain.submit_request(slow)
        shown = await asyncio.to_thread(guarded.command, "show", third, "--verbose")
        assert "publisher  default" in shown.stdout, shown.stdout + shown.stderr
        for run_id in (theirs, third):
            ended = await asyncio.to_thread(guarded.command, "abort", run_id)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert (await operator.ended(run_id, timeout=PATIENCE)).status == "ABORTED"
        assert third in (await asyncio.to_thread(guarded.command, "runs")).stdout


async def test_a_publisher_follows_and_lists_its_own_runs_without_reading_the_ledger(
    guarded: GuardedStack, make_project: MakeProject
) -> None:
    request = slow_request(make_project(), 0.0)
    async with client_of(guarded, "acme") as acme, client_of(guarded, "beta") as beta:
        run_id = await acme.submit_request(request)
        async with asyncio.timeout(PATIENCE):
            followed = [event async for event in acme.follow(run_id)]
        assert (followed[0].event_type, followed[-1].event_type) == ("run_accepted", "bundle_sealed")
        assert tuple(followed) == await acme.events(run_id)
        assert (await acme.get(run_id)).status == "SUCCESS"
        assert (await acme.wait(run_id, timeout=PATIENCE)).sealed is not None
        assert (await acme.list_runs(limit=1)).runs[0].run_id == run_id
        assert run_id not in {run.run_id for run in (await beta.list_runs()).runs}
        assert await beta.events(run_id) == ()
        with pytest.raises(MalformedError, match=run_id):
            await beta.get(run_id)


async def test_each_is_held_to_its_policy(guarded: GuardedStack, make_project: MakeProject) -> None:
    request = slow_request(make_project(), 0.0)
    async with (
        client_of(guarded, "beta") as beta,
        client_of(guarded, "stranger") as stranger,
        client_of(guarded, "busy") as busy,
    ):
        with pytest.raises(DeniedError) as elsewhere:
            await beta.submit_request(request)
        assert (elsewhere.value.reason, elsewhere.value.faults[0].pointer) == ("repository_not_allowed", "/repository/url")
        with pytest.raises(DeniedError) as unknown:
            await stranger.submit_request(request)
        assert unknown.value.reason == "publisher_unknown"
        await busy.submit_request(request)
        with pytest.raises(LimitError) as often:
            await busy.submit_request(request)
        assert often.value.reason == "rate_exceeded"
        assert often.value.retry_after is not None
        assert 0 < often.value.retry_after <= 60


async def test_a_publisher_that_fills_its_uploads_stops_no_run_of_another(
    guarded: GuardedStack, make_project: MakeProject
) -> None:
    uploads = upload_stream("busy").name
    provisioner = await JetStreamBus.connect(guarded.state.address("provisioner"), name="tests")
    ask = provisioner.connection.request
    there = json.loads((await ask(f"gw.js.STREAM.INFO.{uploads}", b"", timeout=5)).data)["config"]
    small = json.dumps(there | {"max_bytes": 2 << 20}).encode()
    assert "error" not in json.loads((await ask(f"gw.js.STREAM.UPDATE.{uploads}", small, timeout=5)).data)
    await provisioner.close()
    request = slow_request(make_project(), 0.0)
    async with client_of(guarded, "busy") as busy, client_of(guarded, "acme") as acme:

        async def upload() -> None:
            while True:
                await busy.put_artifact(os.urandom(400_000))

        with pytest.raises(LimitError) as refused:
            await upload()
        assert refused.value.reason == "uploads_full"
        # Too large for the document, so that it is uploaded.
        patch = await acme.attach("patch.diff", new_file("src/large.txt", 20_000))
        executor = Executor(kind="patch", artifacts=("patch.diff",))
        tests = (AcceptanceTest(name="there", cmd="test -s src/large.txt", must_pass=True),)
        run_id = await acme.submit_request(
            msgspec.structs.replace(request, executor=executor, artifacts=(patch,), acceptance_tests=tests)
        )
        status = await acme.ended(run_id, timeout=PATIENCE)
        assert (status.status, status.code) == ("SUCCESS", "ok")


async def test_a_publisher_cannot_have_what_another_uploaded_put_into_its_own_run(
    guarded: GuardedStack, make_project: MakeProject
) -> None:
    request = slow_request(make_project(), 0.0)
    async with client_of(guarded, "acme") as acme, client_of(guarded, "default") as plain:
        theirs = await acme.attach("patch.diff", new_file("src/secret_plans.txt", 21_000))
        executor = Executor(kind="patch", artifacts=("patch.diff",))
        run_id = await plain.submit_request(msgspec.structs.replace(request, executor=executor, artifacts=(theirs,)))
        status = await plain.ended(run_id, timeout=PATIENCE)
        assert (status.status, status.code) == ("FAILED", "artifact_invalid")


def new_file(path: str, lines: int) -> bytes:
    """A patch that adds a file."""
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{lines} @@\n"
    return (head + "".join(f"+line {number} of it\n" for number in range(lines))).encode()


async def test_the_server_prevents_speaking_in_the_name_of_another(guarded: GuardedStack) -> None:
    complaints: list[str] = []

    async def note(error: Exception) -> None:
        complaints.append(str(error))

    seed = guarded.state.address("publisher-acme").seed
    client = await nats.connect(
        guarded.state.url, nkeys_seed=str(seed), inbox_prefix="_INBOX_publisher-acme", error_cb=note, allow_reconnect=False
    )
    others = ("gw.submit", "gw.submit.beta", "gw.submit.operator", "gw.status", "gw.status.beta", "gw.status.operator")
    for subject in (*others, "gw.intake.request", "gw.intake.abort.beta", "gw.intake.abort.operator"):
        before = len(complaints)
        with pytest.raises((NatsError, NoRespondersError, asyncio.TimeoutError)):
            await client.request(subject, b"{}", timeout=0.5)
        assert len(complaints) > before, subject
        assert "ermissions" in complaints[-1], complaints[-1]
    answer = await client.request("gw.status.acme", b'{"run_id": "run-0000000000"}', timeout=PATIENCE)
    assert json.loads(answer.data)["code"] == "run_unknown"
    await client.close()


async def test_the_queue_keeps_equal_ids_of_two_publishers_apart(guarded: GuardedStack, make_project: MakeProject) -> None:
    """One publisher's message id must not make another's message a repetition, and an event by queue makes a run as well."""
    document = json.loads(codec.encode(slow_request(make_project(), 0.0)))
    event = {"specversion": "1.0", "id": "e1", "source": "/ci", "type": "gatewright.run_request.v1", "data": document}
    for name, subject in (("publisher-acme", "gw.intake.request.acme"), ("publisher", "gw.intake.request")):
        seed = guarded.state.address(name).seed
        client = await nats.connect(guarded.state.url, nkeys_seed=str(seed), inbox_prefix=f"_INBOX_{name}")
        headers = {"Nats-Msg-Id": "the-same-id", "Content-Type": "application/cloudevents+json"}
        stored = await client.jetstream(prefix="gw.js").publish(subject, json.dumps(event).encode(), headers=headers)
        assert not stored.duplicate
        await client.close()
        await asyncio.sleep(0.2)
    key = '["cloudevent","/ci","e1"]'
    async with client_of(guarded, "acme") as acme, client_of(guarded, "default") as anybody:
        for client, run_id in ((acme, run_id_of(key, "acme")), (anybody, run_id_of(key))):
            assert (await _appeared(client, run_id)).run_id == run_id


async def _appeared(client: Client, run_id: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await client.status(run_id)
            except MalformedError:
                await asyncio.sleep(0.1)


def test_the_plain_example_works_for_a_named_publisher(
    guarded: GuardedStack, make_project: MakeProject, tmp_path: Path
) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    seed = str(guarded.state.address("publisher-acme").seed)
    argv = [sys.executable, str(EXAMPLES / "publish_python.py"), guarded.state.url, seed, str(contract)]
    said = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_command_line_asks_as_a_named_publisher(guarded: GuardedStack, make_project: MakeProject, tmp_path: Path) -> None:
    document = tmp_path / "request.json"
    document.write_bytes(codec.encode(slow_request(make_project(), 0.0)))
    acme = {"GATEWRIGHT_NATS_URL": guarded.state.url, "GATEWRIGHT_NATS_SEED": str(guarded.state.address("publisher-acme").seed)}
    beta = acme | {"GATEWRIGHT_NATS_SEED": str(guarded.state.address("publisher-beta").seed)}
    submitted = guarded.command("submit", str(document), "--json", extra=acme)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    run_id = json.loads(submitted.stdout)["run_id"]
    told = guarded.command("status", run_id, "--wait", extra=acme)
    assert (told.returncode, "SUCCESS" in told.stdout, "publisher  acme" in told.stdout) == (0, True, True), told.stdout
    assert json.loads(guarded.command("status", run_id, "--json", extra=acme).stdout)["bundle"]
    hidden = guarded.command("status", run_id, extra=beta)
    assert hidden.returncode == 2, hidden.stdout + hidden.stderr
    assert "run_unknown" in hidden.stdout + hidden.stderr
