"""Progress packet of an ended run: order, result, evidence and remaining work.

Pure, and computed only from the events and the list of changed paths, so ``verify`` can recompute it. Of text by agents, models
or requesters it contains only path names, quoted as by git. Everything else is a code, a digest, an id or a number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from gatewright.contracts import ProgressPacket, codec
from gatewright.contracts.progress import (
    NamedPaths,
    OpenItem,
    PacketDecision,
    PacketLanding,
    PacketOrder,
    PacketProof,
    PacketProofs,
    PacketRepair,
    PlannedShard,
    Reconciliation,
    ShardState,
)
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import Document
from gatewright.evidence import layout
from gatewright.evidence.projection.decisions import decisions_of
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.names import quote_path
from gatewright.order_artifacts.hidden_acceptance import hidden_tests
from gatewright.rules.shards import attempt_id
from gatewright.run import events as e
from gatewright.run.state import Run, RunTask
from gatewright.scope import AllowedPaths

#: Maximum entries per list; further ones are counted. A packet has at most about 64 KiB.
MOST_PATHS: Final = 60
MOST_SHARD_PATHS: Final = 6
MOST: Final = 40
MOST_REPAIRS: Final = 20
#: Maximum characters of a quoted path; longer ones are counted, not listed.
LONGEST_PATH: Final = 240
#: Placeholder for a word that is not a well-formed code.
UNKNOWN: Final = "other"

_CODE = re.compile(r"[a-z][a-z0-9_.]{0,79}", re.ASCII)  # noqa: TID251 - linear: anchored by fullmatch, one bounded repetition
_REFERENCE = re.compile(r"[!-~]{1,300}", re.ASCII)  # noqa: TID251 - linear: anchored by fullmatch, one bounded repetition
_TASKS = {"PENDING": "task_pending", "RUNNING": "task_unanswered", "FAILED": "task_failed"}
_T = TypeVar("_T")


def progress_of(history: RunHistory, names: bytes) -> ProgressPacket:
    """Return the progress packet.

    Args:
        history: the ended run.
        names: the candidate's changed paths, each terminated by a NUL; empty without a candidate.
    """
    run, landed = history.run, history.run.landed
    touched = sorted(set(names.split(b"\0")) - {b""})
    open_items, repairs = list(_open_items(history)), list(_repairs(history))
    codes = list(dict.fromkeys(_codes(history)))
    decisions = [
        PacketDecision(id=each.id, by=each.by, supersedes=each.supersedes)
        for each in decisions_of(run, history.records).decisions
        if each.id is not None and each.by is not None
    ]
    left_out = sum(max(0, len(items) - MOST) for items in (open_items, codes, decisions)) + max(0, len(repairs) - MOST_REPAIRS)
    return ProgressPacket(
        run_id=run.run_id,
        repository_sha256=repository_digest(run.accepted.repository_key),
        status="SUCCESS" if run.status == "SUCCESS" else "ABORTED" if run.status == "ABORTED" else "FAILED",
        code=_end_code(run),
        attempts=run.attempt,
        started_at=run.created_at,
        finished_at=run.finished_at,
        order=_order(run),
        touched=name_paths(touched),
        proofs=_proofs(run),
        open=_newest(open_items, MOST),
        repairs=_newest(repairs, MOST_REPAIRS),
        reason_codes=_newest(codes, MOST),
        decisions=_newest(decisions, MOST),
        left_out=left_out,
        candidate_tree=run.candidate.tree if run.candidate else None,
        landed=PacketLanding(mode=landed.mode, tree=landed.tree, commit=landed.commit, ref=landed.ref[:300])
        if landed
        else None,
        reconciliation=_reconcile(run, touched),
    )


def repository_digest(key: str) -> str:
    """Return the digest that documents use for a repository, so that they do not disclose its location."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def name_paths(paths: Iterable[bytes], most: int = MOST_PATHS) -> NamedPaths:
    """Return the first of ``paths``, quoted as by git; longer ones, and those beyond ``most``, are counted."""
    every = [quote_path(path) for path in paths]
    short = [path for path in every if path and len(path) <= LONGEST_PATH][:most]
    return NamedPaths(paths=tuple(short), more=len(every) - len(short))


def _newest(items: Sequence[_T], most: int) -> tuple[_T, ...]:
    return tuple(items[-most:])


def _code(word: str) -> str:
    return word if _CODE.fullmatch(word) else UNKNOWN


def _end_code(run: Run) -> str:
    return "ok" if run.status == "SUCCESS" else _code(run.failure.code if run.failure else UNKNOWN)


def _digest_document(document: Document | None) -> str | None:
    return hashlib.sha256(codec.encode(document)).hexdigest() if document is not None else None


def _order(run: Run) -> PacketOrder:
    contract, request = run.contract, run.request
    order = contract or request
    tests = order.acceptance_tests if order else ()
    hidden = len(hidden_tests(tests))
    return PacketOrder(
        allowed=name_paths(_encode_paths(order.allowed_paths if order else ())),
        acceptance_tests=len(tests) - hidden,
        hidden_tests=hidden,
        task_type=contract.task_type if contract else None,
        request_sha256=_digest_document(request),
        contract_sha256=_digest_document(contract),
    )


def _encode_paths(paths: Iterable[str]) -> list[bytes]:
    return [path.encode("utf-8", "surrogatepass") for path in paths]


def _last(run: Run) -> list[tuple[int, TestCommand]]:
    """Return every command of the last attempt's report with its number; for a repeated command, the second run."""
    commands = run.tests.commands if run.tests else ()
    return sorted({command.name: (number, command) for number, command in enumerate(commands, 1)}.values(), key=lambda c: c[0])


def _command_passed(command: TestCommand) -> bool:
    return command.exit_code == 0 and not command.timed_out and not command.stopped


def _proofs(run: Run) -> PacketProofs:
    tests = run.contract.acceptance_tests if run.contract else ()
    hidden = {test.name for test in hidden_tests(tests)}
    seen = [(number, command) for number, command in _last(run) if command.name not in hidden]
    unseen = [_command_passed(command) for _, command in _last(run) if command.name in hidden]
    proofs = tuple(
        PacketProof(
            number=number,
            argv_sha256=hashlib.sha256(msgspec.json.encode(command.cmd_argv)).hexdigest(),
            must_pass=command.must_pass,
            passed=_command_passed(command),
            exit_code=command.exit_code,
        )
        for number, command in seen[:MOST]
    )
    more = len(seen) - len(proofs)
    return PacketProofs(commands=proofs, more=more, hidden_passed=sum(unseen), hidden_failed=len(unseen) - sum(unseen))


def _open_items(history: RunHistory) -> Iterable[OpenItem]:
    """Yield the open items.

    1. After a landing: what people still have to do.
    2. After a failure: the refusals that ended the run, the unfinished tasks of its last attempt, the failed tests, the open
       approval requests.
    """
    run = history.run
    if run.status == "SUCCESS":
        if run.landed and run.landed.mode == "branch" and _REFERENCE.fullmatch(run.landed.ref):  # 1
            yield OpenItem(kind="merge", reason="branch_to_merge", ref=run.landed.ref)
        return
    decisive = {id(gate) for gate in history.decisive}
    for number, gate in enumerate(history.gates, 1):  # 2
        if gate.verdict == "FAIL" and id(gate) in decisive:
            place = layout.gate_report(number, gate.gate, gate.task_id)
            yield OpenItem(kind="gate", reason=_code(gate.code), ref=place)
    for task in run.tasks.values():
        if task.status != "SUCCESS" and task.attempt == run.attempt:
            yield OpenItem(kind="task", reason=_TASKS[task.status], ref=_reference(task))
    for number, command in _last(run):
        if command.must_pass and not _command_passed(command):
            yield OpenItem(kind="test", reason="test_failed", ref=f"{layout.TEST_REPORT}#/commands/{number - 1}")
    for request_id, asked in run.approvals.items():
        if asked.status not in {"approved", "autopilot"}:
            yield OpenItem(kind="approval", reason=asked.status, ref=layout.approval_request(request_id))


def _reference(task: RunTask) -> str:
    return layout.task_contract(task.task_id) if task.contract else layout.REQUEST


def _repairs(history: RunHistory) -> Iterable[PacketRepair]:
    for record in history.records:
        payload = e.event_of(record) if record.event_type == e.FixOrdered.event_type else None
        if isinstance(payload, e.FixOrdered):
            yield PacketRepair(attempt=payload.attempt, reason=_code(payload.reason), event=record.seq)


def _codes(history: RunHistory) -> Iterable[str]:
    for gate in history.gates:
        if gate.verdict == "FAIL":
            yield _code(gate.code)
    if history.run.status != "SUCCESS":
        yield _end_code(history.run)


def _reconcile(run: Run, touched: Sequence[bytes]) -> Reconciliation | None:
    """Compare the plan with the result; None without a plan. With several candidates, use the chosen one's part."""
    if run.plan is None:
        return None
    planned = [each for each in run.plan.contracts if not run.chosen or (each.candidate or run.chosen) == run.chosen]
    shards, held = [], [False] * len(touched)
    for contract in planned:
        paths = AllowedPaths(contract.allowed_paths)
        inside = [paths.holds(path) for path in touched]
        held = [a or b for a, b in zip(held, inside, strict=True)]
        task = run.tasks.get(attempt_id(contract.task_id, run.attempt))
        shards.append(
            PlannedShard(
                task_id=contract.task_id,
                planned=name_paths(_encode_paths(contract.allowed_paths), MOST_SHARD_PATHS),
                touched=sum(inside),
                state=_shard_state(task, sum(inside)),
            )
        )
    done = bool(shards) and all(shard.state == "done" for shard in shards)
    return Reconciliation(
        shards=tuple(shards[:MOST]),
        more=max(0, len(shards) - MOST),
        unplanned=held.count(False),
        untested=not run.tests_passed,
        complete=done and run.tests_passed,
    )


def _shard_state(task: RunTask | None, touched: int) -> ShardState:
    if task is None or task.status in {"PENDING", "RUNNING"}:
        return "open"
    if task.status != "SUCCESS":
        return "refused"
    return "done" if touched else "untouched"
