"""Limits a model's proposal for a contract: nothing wider than the requester allowed. Pure.

Values that the request fixes stay; open values are proposed, and judged by the rules here. Every rejected or changed proposal
is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import ContractProposal, RunRequest
from gatewright.contracts.consultation import Clamp
from gatewright.contracts.proposals import ProposedExecutor
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, ToolPermissions
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.registry import recognise
from gatewright.errors import CommandRefusedError, Fault, ScopeError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.permissions import FILESYSTEM_ORDER, NETWORK_ORDER, SHELL_ORDER, is_wider
from gatewright.run.kinds import KINDS
from gatewright.sandbox.argv import parse_command
from gatewright.worker_role import ways, worker_permissions

#: Of these fields nothing is guessed into a run: a request that leaves one open gets a proposal, which its requester confirms.
CONFIRMED = ("allowed_paths", "executor")
_FIXED = "fixed_by_request"
_OUTSIDE = "path_out_of_scope"
_WIDER = "permission_too_wide"


def left_open(request: RunRequest) -> tuple[str, ...]:
    """The fields that ``request`` does not fill, of those that a contract needs."""
    empty = {
        "allowed_paths": not request.allowed_paths,
        "acceptance_tests": not request.acceptance_tests,
        "executor": not ways(request),
    }
    unread = KINDS[request.task_type].unread
    return tuple(name for name, is_open in empty.items() if is_open and name not in unread)


async def faults_of(
    proposal: ContractProposal, request: RunRequest, tree: TreeFiles, detected: Sequence[str], kinds: Sequence[str]
) -> tuple[Fault, ...]:
    """Return the faults of a valid proposal in the fields that the request leaves open: paths, test commands, executor."""
    faults: list[Fault] = []
    open_fields = left_open(request)
    if "allowed_paths" in open_fields:
        faults += _path_faults(proposal.allowed_paths)
    if "acceptance_tests" in open_fields:
        for number, test in enumerate(proposal.acceptance_tests):
            words = await _why_not(test.cmd, tree, detected)
            if words:
                faults.append(Fault(f"/acceptance_tests/{number}/cmd", "command_not_allowed", words))
    if "executor" in open_fields:
        faults += _executor_faults(proposal.executor, kinds)
    return tuple(faults)


def fill_in(request: RunRequest, proposal: ContractProposal) -> RunRequest:
    """The request with what it left open filled in from a proposal without faults; everything else as it is."""
    open_fields = left_open(request)
    if "allowed_paths" in open_fields:
        paths = dict.fromkeys(scope.check_allowed_path(path) for path in proposal.allowed_paths)
        request = replace(request, allowed_paths=tuple(paths))
    if "acceptance_tests" in open_fields:
        commands = dict.fromkeys(test.cmd for test in proposal.acceptance_tests)
        tests = (AcceptanceTest(name=f"test-{number}", cmd=cmd, must_pass=True) for number, cmd in enumerate(commands, 1))
        request = replace(request, acceptance_tests=tuple(tests))
    if "executor" in open_fields and proposal.executor is not None:
        request = replace(request, executor=_executor(proposal.executor))
    return request


def clamps(request: RunRequest, proposal: ContractProposal) -> tuple[Clamp, ...]:
    """Return everything that was proposed beyond or against the request."""
    return tuple(_clamps(request, proposal))


def _clamps(request: RunRequest, proposal: ContractProposal) -> Iterator[Clamp]:
    if request.allowed_paths:
        allowed = scope.AllowedPaths(request.allowed_paths)
        for path in proposal.allowed_paths:
            if not allowed.cover(path.removesuffix("/").encode("utf-8", "surrogatepass")):
                yield Clamp(field="allowed_paths", proposed=path, granted="", reason=_OUTSIDE)
    if request.acceptance_tests:
        known = {test.cmd for test in request.acceptance_tests}
        for test in proposal.acceptance_tests:
            if test.cmd not in known:
                yield Clamp(field="acceptance_tests", proposed=test.cmd, granted="", reason=_FIXED)
    if request.executor is not None and proposal.executor is not None:
        proposed, fixed = _in_words(proposal.executor.kind, proposal.executor.commands), request.executor
        granted = _in_words(fixed.kind, fixed.commands)
        if proposed != granted:
            yield Clamp(field="executor", proposed=proposed, granted=granted, reason=_FIXED)
    if proposal.policy_pack is not None and proposal.policy_pack != request.policy_pack:
        yield Clamp(field="policy_pack", proposed=proposal.policy_pack, granted=request.policy_pack, reason=_FIXED)
    for requirement in proposal.requirement_ids:
        if requirement not in request.requirement_ids:
            yield Clamp(field="requirement_ids", proposed=requirement, granted="", reason=_FIXED)
    yield from _permission_clamps(proposal, worker_permissions(interactive=request.interactive))


def _permission_clamps(proposal: ContractProposal, most: ToolPermissions) -> Iterator[Clamp]:
    asked = proposal.tool_permissions
    if asked is None:
        return
    pairs = (
        ("filesystem", asked.filesystem, most.filesystem, is_wider(FILESYSTEM_ORDER, asked.filesystem, most.filesystem)),
        ("shell", asked.shell, most.shell, is_wider(SHELL_ORDER, asked.shell, most.shell)),
        ("network", asked.network, most.network, is_wider(NETWORK_ORDER, asked.network, most.network)),
    )
    for name, proposed, granted, wider in pairs:
        if wider:
            yield Clamp(field=f"tool_permissions.{name}", proposed=proposed, granted=granted, reason=_WIDER)


def _path_faults(paths: Sequence[str]) -> Iterator[Fault]:
    for number, path in enumerate(paths):
        try:
            scope.check_allowed_path(path)
        except ScopeError as error:
            yield Fault(f"/allowed_paths/{number}", error.reason, error.message)


async def _why_not(command: str, tree: TreeFiles, detected: Sequence[str]) -> str:
    """Why ``command`` is none that tests this repository; empty when it is one."""
    try:
        argv = parse_command(command)
    except CommandRefusedError as error:
        return error.message
    if command in detected or await recognise(argv, tree) is not None:
        return ""
    return f"starts no test framework that is known here; detected: {'; '.join(detected) or 'nothing'}"


def _executor_faults(executor: ProposedExecutor | None, kinds: Sequence[str]) -> Iterator[Fault]:
    if executor is None:
        yield Fault("/executor", "required", "is required: the request does not state how the change is made")
        return
    if executor.kind not in kinds:
        yield Fault("/executor/kind", "invalid", f"must be one of {', '.join(kinds)}")
        return
    try:
        made = _executor(executor)
    except msgspec.ValidationError as error:
        yield Fault("/executor", "invalid", str(error)[:200])
        return
    if executor.kind == "model" and executor.model is None:
        yield Fault("/executor/model", "required", "is required: the name of a model")
    if (EXECUTOR_KINDS[made.kind].answers == "commands") != bool(executor.commands):
        yield Fault("/executor/commands", "required", "at least one command for the executor command, and none for others")
    for number, command in enumerate(executor.commands):
        try:
            parse_command(command)
        except CommandRefusedError as error:
            yield Fault(f"/executor/commands/{number}", error.reason, error.message)


def _executor(proposed: ProposedExecutor) -> Executor:
    """As a contract has it. Raises msgspec.ValidationError for a name that is none."""
    fields = {"kind": proposed.kind, "commands": proposed.commands, "agent": proposed.agent, "model": proposed.model}
    return msgspec.convert({name: value for name, value in fields.items() if value}, Executor)


def _in_words(kind: str, commands: Sequence[str]) -> str:
    return f"{kind}: {'; '.join(commands)}" if commands else kind
