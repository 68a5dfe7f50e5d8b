"""How the change was made: the executor, its command or given answer, the workers, and the end of each task."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gatewright import scope
from gatewright.app.report.account import MAX_READ_BYTES, BundleAccount
from gatewright.app.report.limits import PageLimits, clip_text
from gatewright.app.report.markup import Child, table, tag, with_class
from gatewright.app.report.verdicts import sign
from gatewright.contracts import ProgressPacket, TaskContract, TaskResult, codec
from gatewright.contracts.progress import NamedPaths, Reconciliation
from gatewright.errors import CommandRefusedError, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.choice import RULE, standings, why_chosen
from gatewright.run.state import Run, RunTask
from gatewright.sandbox.argv import parse_command
from gatewright.work_documents.candidates import HEADINGS, cells_of, rows_of
from gatewright.worker_role import answers, ways


def work(run: Run, history: RunHistory | None, limits: PageLimits) -> Iterator[Element]:
    """Yield the executor, then every worker's task: what it did, who did it, how it ended."""
    contract = run.contract
    executors = ways(contract) if contract is not None else ()
    if not executors:
        yield with_class("p", "note", "No contract defines how the change is made.")
        return
    for kind in dict.fromkeys(executor.kind for executor in executors):
        yield tag("p", None, EXECUTOR_KINDS[kind].sentence)
    yield from _candidates(run, history)
    workers = [task for task in run.tasks.values() if task.role == "worker"]
    if not workers:
        yield with_class("p", "note", "No worker received a task.")
        return
    results = history.results if history is not None else {}
    yield table("work", (_row(task, run, results.get(task.task_id, task.result), limits) for task in workers[: limits.rows]))
    if len(workers) > limits.rows:
        yield with_class("p", "cut", f"{len(workers) - limits.rows} more tasks are not shown; they are in results/.")


def _candidates(run: Run, history: RunHistory | None) -> Iterator[Element]:
    """Yield who made each of several candidates, its outcome, and why one landed; nothing for a single candidate."""
    rows = rows_of(run, history.gates if history is not None else ())
    if not rows:
        return
    yield tag("p", None, f"{len(rows)} candidates were made independently and judged by the same gates. The rule: {RULE}.")
    yield table("work", (HEADINGS, *(cells_of(row) for row in rows)))
    if run.chosen:
        yield tag("p", None, f"Candidate {run.chosen} landed: {why_chosen(standings(run))}.")


def _row(task: RunTask, run: Run, result: TaskResult | None, limits: PageLimits) -> tuple[Child, ...]:
    name = task.task_id.removeprefix(f"{run.run_id}.")
    how = _how(task.contract or run.contract)
    if result is None:
        return with_class("span", "sign-none", "\u2013"), tag("code", None, name), how, "\u2013", _describe_open_task(task, run)
    who = f"{result.producer.role.lower()} {result.producer.agent_id}"
    words = result.failure or result.summary
    return sign(passed=task.status == "SUCCESS"), tag("code", None, name), how, who, clip_text(words, limits.text)


def _describe_open_task(task: RunTask, run: Run) -> str:
    if task.status == "FAILED":
        return "failed"
    if run.ended:
        return "never dispatched" if task.status == "PENDING" else "never answered"
    return "not dispatched yet" if task.status == "PENDING" else "in progress"


def _how(contract: TaskContract | None) -> Element | str:
    """The argv of this task, with its paths in their place; or the name and digest of what was given."""
    if contract is None or contract.executor is None:
        return "not recorded"
    if EXECUTOR_KINDS[contract.executor.kind].asked_anew:
        return tag("code", None, " ".join(filter(None, (contract.executor.agent, contract.executor.model))) or "by default")
    given = answers(contract.executor)
    answer = given[min(contract.attempt, len(given)) - 1] if given else ""
    if EXECUTOR_KINDS[contract.executor.kind].answers == "commands":
        try:
            argv = scope.expand_paths(parse_command(answer), contract.allowed_paths)
        except CommandRefusedError:
            return tag("code", None, clip_text(answer, 500))
        return tag("code", None, clip_text(shlex.join(argv), 500))
    digest = next((artifact.sha256 for artifact in contract.inputs.artifacts if artifact.name == answer), "")
    return tag("code", None, f"{answer} {digest[:16]}".rstrip())


# The plan against the evidence, as the run's progress packet has it. It is advice; what counted was decided by the gates.
_STATES = {"done": "done", "untouched": "accepted, nothing of it changed", "refused": "not accepted", "open": "never answered"}
_HEADINGS = ("shard", "planned", "changed files", "result")


def reconciliation_table(account: BundleAccount) -> Iterator[Element]:
    """Yield a table of the shards and two sentences; nothing for a run without a packet or a plan."""
    found = account.excerpt(layout.PROGRESS_PACKET, MAX_READ_BYTES)
    try:
        packet = codec.decode(found.head, ProgressPacket) if found.size and not found.left_out else None
    except MalformedError:
        return  # the verification at the top of the page reports it
    if packet is None or packet.reconciliation is None:
        return
    result = packet.reconciliation
    yield tag(
        "p", None, tag("b", None, "The plan against the evidence"), " (advice, and no gate). ", _reconciliation_words(result)
    )
    rows = ((each.task_id, _describe_paths(each.planned), str(each.touched), _STATES[each.state]) for each in result.shards)
    yield table("work", (_HEADINGS, *rows))
    if result.more:
        yield with_class("p", "cut", f"{result.more} more shards are not shown.")


def _reconciliation_words(result: Reconciliation) -> str:
    if result.complete:
        return "Every shard is done, and all of it was tested."
    parts = [f"{sum(each.state != 'done' for each in result.shards)} of {len(result.shards)} shards are not done"]
    if result.unplanned:
        parts.append(f"{result.unplanned} changed files lie in no shard")
    if result.untested:
        parts.append("the tests that must pass did not all pass")
    return f"{'; '.join(parts)}."


def _describe_paths(planned: NamedPaths) -> str:
    more = f" and {planned.more} more" if planned.more else ""
    return f"{', '.join(planned.paths)}{more}"
