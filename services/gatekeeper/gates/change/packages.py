"""Packages of a changed lock: the order of environments for a candidate, and the puller's answer to it.

1. a child process computes orders: files of a change are hostile  2. only orders whose files differ from the baseline's are
pulled  3. an order is sent only while it is the recorded one, which people were shown  4. a puller that is not there, or
refuses, ends the run: no command sees the baseline's packages instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from gatewright.bounded.judge import BeyondLimitError, BoundedJudge, ProcessBounds
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS, Bus
from gatewright.bus.topology import ENVIRONMENT_SUBJECT
from gatewright.client.client import BUSY, ORDER_PATIENCE, ORDER_TIMEOUT, RESTART_PATIENCE
from gatewright.client.refusals import decode_answer
from gatewright.clock import Clock
from gatewright.contracts import EnvironmentOrder, EnvironmentResult, TaskContract, codec
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.ecosystems.dependencies.comparing import dependency_changes, is_dependency_file
from gatewright.errors import LimitError, UnavailableError
from gatewright.git.mirror import Mirror
from gatewright.git.mirror_tree import list_tree
from gatewright.git.paths import display
from gatewright.rules.environment_orders import (
    DIFFERS,
    RULE,
    UNAPPROVED,
    UNSUPPORTED,
    OrderAnswer,
    OrderQuestion,
    changed_order,
    order_digest,
    result_fault,
)
from gatewright.rules.gate_evidence import CANDIDATE_TREE, ORDER
from gatewright.run.events import ChangedOrder
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.change.candidate import ComposedCandidate
from gatewright.services.gatekeeper.gates.context import ChangeContext

_FUNCTION: Final = "gatewright.app.environments.order:answer_question"
_BOUNDS: Final = ProcessBounds(seconds=60.0)
#: Questions about one tree: each names further files. Most files are sent with the first.
_MOST_QUESTIONS: Final = 50
#: Bytes of a file, and of all files, that a question holds.
_LARGEST: Final = 8 << 20
_MOST_BYTES: Final = 64 << 20
#: Lines about packages that people are shown, and names in one of them.
_MOST_LINES: Final = 20
_MOST_NAMES: Final = 30
_PULLER: Final = "puller"


@dataclass(frozen=True, slots=True)
class _Order:
    order: EnvironmentOrder | None
    ecosystems: tuple[str, ...]
    fault: str = ""


async def _order_on(judge: BoundedJudge, mirror: Mirror, tree: str, commands: Sequence[str]) -> _Order:
    """Return the order for ``commands`` on ``tree``. Raises GitError, BeyondLimitError."""
    listed = await list_tree(mirror, tree, largest=_LARGEST)
    paths = tuple(sorted(listed.paths))
    wanted = [path for path in paths if is_dependency_file(path.encode())]
    files: dict[str, bytes | None] = {}
    held = 0
    for number in range(_MOST_QUESTIONS):
        for path in wanted:
            if held > _MOST_BYTES:
                break
            files[path] = content = await listed.read(path)
            held += len(content or b"")
        if number and held > _MOST_BYTES:
            return _Order(None, (), f"the files that name packages have more than {_MOST_BYTES >> 20} MiB")
        question = msgspec.msgpack.encode(OrderQuestion(tuple(commands), paths, files))  # 1
        answer = msgspec.msgpack.decode(await judge.ask(question), type=OrderAnswer)
        if not answer.missing:
            order = codec.decode(answer.order, EnvironmentOrder) if answer.order else None
            return _Order(order, answer.ecosystems, answer.fault)
        wanted = list(answer.missing)
    return _Order(None, (), f"more than {_MOST_QUESTIONS} files include each other")


def _commands_of(contract: TaskContract) -> list[str]:
    """Return the commands that environments are made for."""
    return [test.cmd for test in contract.acceptance_tests]


async def order_digest_on(mirror: Mirror, tree: str, contract: TaskContract) -> str:
    """Return the digest of the order for the contract's commands on ``tree``; empty where none can be made. Raises GitError."""
    try:
        made = await _order_on(BoundedJudge(_FUNCTION, _BOUNDS), mirror, tree, _commands_of(contract))
    except BeyondLimitError:
        return ""
    return order_digest(made.order) if made.order is not None else ""


async def find_order(context: ChangeContext, candidate: ComposedCandidate, run: Run) -> ChangedOrder | None:
    """Return what the candidate's tests need pulled; None where the baseline's packages are the candidate's too.

    Refuses a changed order that cannot be pulled. Where packages are not to be pulled, a remark names the way.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, contract = context.report, context.contract
    network, commands = contract.tool_permissions.network, _commands_of(contract)
    touched = [each.path for each in candidate.changes if is_dependency_file(each.path)]
    if network == "deny" or not candidate.changes:
        if contract.environment is not None and touched:
            words = "the tests see the packages of the baseline; where --env auto reads the file, --network on-request pulls"
            report.remark(RULE, f"{words} those of the change", touched[0])
        return None
    judge = BoundedJudge(_FUNCTION, _BOUNDS)
    report.checked(RULE, network)
    after = await _order_on(judge, context.mirror, candidate.tree, commands)
    before = await _order_on(judge, context.mirror, run.accepted.baseline_tree, commands)
    if after.order is None:
        if after.fault != before.fault or touched:
            report.violate("environment_not_prepared", RULE, after.fault)
        return None
    found = changed_order(before.order, after.order)  # 2
    if found is not None and (contract.environment is None or run.chosen or contract.candidates):
        report.violate(UNSUPPORTED, RULE, f"no environment is made for the changed {', '.join(found.files[:5])}")
        return None
    return found and replace(found, packages=await asyncio.to_thread(_package_lines, found.files, before.order, after.order))


def _package_lines(paths: Sequence[str], before: EnvironmentOrder | None, after: EnvironmentOrder) -> tuple[str, ...]:
    """Return for people what the changed files add, remove and move, with versions and unusual sources."""
    old, new = ({each.path: each.content for each in order.files} if order is not None else {} for order in (before, after))
    lines = (
        display(f"{path}: {line}".encode("utf-8", "surrogatepass"))
        for path in paths
        if is_dependency_file(path.encode())
        for line in dependency_changes(path.encode(), old.get(path), new.get(path), _MOST_NAMES)
    )
    return tuple(islice(lines, _MOST_LINES))


@dataclass(frozen=True)
class Puller:
    """Sends orders to the puller. ``silent_since``: when it first gave no answer to the order of a run."""

    bus: Bus
    clock: Clock
    silent_since: dict[str, float] = field(default_factory=dict)

    async def pull(self, context: ChangeContext, run: Run) -> tuple[OrderedEnvironment, ...] | None:
        """Return the environments of the candidate; None while the puller works. Faults are violations of the report.

        Raises:
            GitError: the mirror cannot be read.
            BusError: the bus is unreachable.
        """
        report, candidate = context.report, run.candidate
        if candidate is None or candidate.order is None:
            report.violate("gate_not_evaluated", RULE, "no candidate needs packages")
            return ()
        report.saw(CANDIDATE_TREE, candidate.tree)
        report.saw(ORDER, candidate.order.sha256)
        network = context.contract.tool_permissions.network
        report.checked(RULE, f"{network}: {', '.join(candidate.order.files)}")
        if not run.has_agreed_order(candidate.order.sha256):
            report.violate(UNAPPROVED, RULE, "nothing is pulled: no approval rule asks people about the network")
            return ()
        judge = BoundedJudge(_FUNCTION, _BOUNDS)
        made = await _order_on(judge, context.mirror, candidate.tree, _commands_of(context.contract))
        if made.order is None or order_digest(made.order) != candidate.order.sha256:  # 3
            report.violate(DIFFERS, RULE, "the files of the candidate give another order than the recorded one")
            return ()
        report.checked(_PULLER)
        try:
            result = await self._request_result(run.run_id, made.order)
        except UnavailableError as error:  # 4
            self.silent_since.pop(run.run_id, None)
            report.violate(error.reason, _PULLER, error.message)
            return ()
        if result is None or result.state == "PREPARING":
            return None
        if fault := _result_fault(made, candidate.order, result):
            report.violate("environment_not_prepared", _PULLER, fault)
        return result.environments

    async def _request_result(self, run_id: str, order: EnvironmentOrder) -> EnvironmentResult | None:
        """Return the answer; None for a busy puller, or one that may come back. Raises UnavailableError for a refusal."""
        try:
            data = codec.encode(order)
            answer = await self.bus.request(ENVIRONMENT_SUBJECT, data, schema="environment_order.v1", timeout=ORDER_TIMEOUT)
            result = decode_answer(answer, EnvironmentResult)
        except UnavailableError as error:
            if error.reason in BUSY or isinstance(error, LimitError):
                return None
            if error.reason not in {NO_ANSWER, NO_RESPONDERS}:
                raise
            since = self.silent_since.setdefault(run_id, self.clock.monotonic())
            patience = ORDER_PATIENCE if error.reason == NO_RESPONDERS else RESTART_PATIENCE
            if self.clock.monotonic() - since < patience:
                return None
            words = "no puller answers on this bus, which would prepare the packages of the change"
            raise UnavailableError(words, code="puller_missing") from error
        self.silent_since.pop(run_id, None)
        return result


def _result_fault(made: _Order, order: ChangedOrder, result: EnvironmentResult) -> str:
    if result.order_sha256 != order.sha256:
        return "the puller answered another order than this one"
    return result_fault(made.ecosystems, result)
