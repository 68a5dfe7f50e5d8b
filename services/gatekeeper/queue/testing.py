"""Tests of positions: one task for the standing commands, and one for each distinct set of acceptance commands."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.artifacts import stored_digest
from gatewright.bus.port import PUBLISHER_HEADER, TASK_TOKEN_HEADER, TRACE_HEADER, Bus
from gatewright.bus.topology import DEFAULT_POOL, task_subject
from gatewright.bus.versions import written_here
from gatewright.contracts import TaskContract, codec
from gatewright.contracts.vocabulary import AcceptanceTest, Priority
from gatewright.git.mirror import Mirror
from gatewright.queue.commands import Test, run_id_of_test, task_id_of_part
from gatewright.rules import task_contracts as orders
from gatewright.run.state import Run, trace_id_of
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.gates.change.packages import order_digest_on
from gatewright.view.spans import task_context

_ROLE = "testrunner"


@dataclass(frozen=True, slots=True)
class TestPart:
    """One task of a test. ``runs``: the runs whose acceptance commands it runs; none for the standing commands."""

    __test__ = False

    number: int
    runs: tuple[str, ...]
    contract: TaskContract
    pool: str
    publisher: str
    task_class: Priority


def parts_of(queue_id: str, test: Test, runs: Sequence[Run], template: Run, base: str, patch: str) -> tuple[TestPart, ...]:
    """Return the parts of a test. Runs with the same commands in the same environment share one.

    Args:
        queue_id: id of the queue.
        test: the command of the model.
        runs: the runs of ``test``, in order.
        template: the run whose environment the standing commands have.
        base: commit at the base of the queue.
        patch: artifact URI of the canonical patch from the base to the tested tree.
    """
    groups: dict[str, list[tuple[Run, TaskContract]]] = {}
    if test.standing_commands:
        contract = _task(template, patch, base, test, _standing_tests(test.standing_commands))
        groups[""] = [(template, contract)]
    for run in runs:
        contract = _task(run, patch, base, test, None)
        groups.setdefault(_setting(contract), []).append((run, contract))
    found = []
    for number, (setting, members) in enumerate(groups.items()):
        run, contract = members[0]
        named = replace(
            contract,
            task_id=task_id_of_part(number),
            log_refs=replace(contract.log_refs, run_id=run_id_of_test(queue_id, test.number)),
        )
        whose = tuple(each.run_id for each, _ in members) if setting else ()
        pool = run.pools.get(_ROLE, DEFAULT_POOL)
        found.append(TestPart(number, whose, named, pool, run.publisher, contract.priority))
    return tuple(found)


async def with_packages(runs: Sequence[Run], mirror: Mirror, tree: str) -> list[Run]:
    """Return the runs of a test on ``tree`` as its commands see them: each with the pulled packages of its order on the tree.

    A run without packages of its own gets those of another run of the test, if its commands order the same there.

    Raises:
        GitError: the mirror cannot be read.
    """
    pulled = {run.pulled.order_sha256: run.pulled for run in runs if run.pulled is not None}
    found = []
    for run in runs:
        contract = run.contract if pulled and run.pulled is None else None
        order = await order_digest_on(mirror, tree, contract) if contract is not None else ""
        found.append(replace(run, pulled=pulled.get(order, run.pulled)))
    return found


async def publish_part(bus: Bus, part: TestPart) -> None:
    """Send a part to the test runners. A repetition has no effect within the deduplication window. Raises BusError."""
    contract = part.contract
    run_id = contract.log_refs.run_id
    await bus.publish(
        task_subject(_ROLE, part.pool, part.task_class),
        codec.encode(contract),
        schema=codec.schema_of(contract),
        message_id=f"{run_id}:{contract.task_id}",
        headers={
            TRACE_HEADER: task_context(trace_id_of(run_id), contract.task_id).traceparent,
            PUBLISHER_HEADER: part.publisher,
            TASK_TOKEN_HEADER: task_token(bus, run_id, contract.task_id),
            **written_here(),
        },
    )


def _task(run: Run, patch: str, base: str, test: Test, commands: tuple[AcceptanceTest, ...] | None) -> TaskContract:
    """Return the test runner's task of a run, for another tree than its own."""
    assert run.contract is not None  # noqa: S101 - a queued run has one
    contract = orders.testing(run, run.contract, patch)
    artifact = next(each for each in contract.inputs.artifacts if each.uri == patch)
    return replace(
        contract,
        acceptance_tests=contract.acceptance_tests if commands is None else commands,
        inputs=contract.inputs if commands is None else replace(contract.inputs, artifacts=(artifact,)),
        rollback=replace(contract.rollback, baseline_ref=base),
        timeout_retry=replace(contract.timeout_retry, timeout_sec=test.timeout_s),
        budget=None,
        mutation=None,
        candidate=None,
        parent_task_id=None,
        attempt=1,
    )


def _standing_tests(commands: Iterable[Sequence[str]]) -> tuple[AcceptanceTest, ...]:
    return tuple(
        AcceptanceTest(name=f"standing-{number}", cmd=shlex.join(argv), must_pass=True)
        for number, argv in enumerate(commands, 1)
    )


def _setting(contract: TaskContract) -> str:
    """Return a digest of everything that the commands and their results depend on, beside the tree."""
    environments = (contract.environment, contract.baseline_environment, contract.environment_profile)
    facts = [
        *(codec.encode(each) for each in contract.acceptance_tests),
        *(f"{each.name} {stored_digest(each.uri)}".encode() for each in contract.inputs.artifacts),
        *(b"" if each is None else codec.encode(each) for each in environments),
        (contract.policy_pack or "").encode(),
        repr(contract.timeout_retry).encode(),
    ]
    return hashlib.sha256(b"\0".join(hashlib.sha256(each).digest() for each in facts)).hexdigest()
