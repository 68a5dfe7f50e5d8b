"""Orders by kind of run: fields that nothing in such a run reads, and fields that it needs and lacks."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import RunRequest, TaskContract
from gatewright.order_artifacts.canonical_memory import without_memory
from gatewright.research.documents import PREFIX
from gatewright.rules.contracts import default_of
from gatewright.run.kinds import KINDS
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.worker_role import server_tools, ways

UNREAD = "field_unread"
LACKS = "request_incomplete"
RULE = "task_type"
#: Executors that answer a question.
RESEARCHERS = ("model", "reply")


def judge_kind(context: GateContext, order: RunRequest | TaskContract) -> None:
    """Judge the fields of an order by its kind.

    1. Nothing is given that the kind does not read; no kind reads ``browser_policy``. A run that lands nothing also has no
       landing, retries or other outputs. Only coding agents call tools of servers.
    2. Nothing is missing that the kind needs; what a request leaves out, the pm refuses.
    """
    report, kind = context.report, KINDS[order.task_type]
    report.checked(RULE, kind.name)
    for name in _unread_fields(order):  # 1
        report.violate(UNREAD, RULE, f"{name}: a {kind.name} run does not read it")
    if server_tools(order) and not (kind.lands and ways(order) and all(way.kind == "agent" for way in ways(order))):
        report.violate(UNREAD, RULE, "mcp_tools: only coding agents call tools of servers")
    if isinstance(order, TaskContract):  # 2
        for name in ("allowed_paths", "acceptance_tests"):
            if name not in kind.unread and not getattr(order, name):
                report.violate(LACKS, RULE, f"{name}: a {kind.name} run needs it")
    if kind.searches:
        _judge_search(context, order)
    elif kind.reviews and kind.examines and order.source_branch is None:
        report.violate(LACKS, RULE, "source_branch: a review run needs the head of what it reviews")


def _judge_search(context: GateContext, order: RunRequest | TaskContract) -> None:
    """Require a model that searches, or given findings; and that every input is a document or these findings."""
    report, executor = context.report, order.executor
    if executor is None or executor.kind not in RESEARCHERS:
        report.violate("executor_missing", RULE, f"executor: a search run needs one of {', '.join(RESEARCHERS)}")
        return
    given = order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    for artifact in without_memory(given):
        if not artifact.name.startswith(PREFIX) and artifact.name not in executor.artifacts:
            report.violate(UNREAD, RULE, f"artifact {artifact.name[:100]}: a document is named {PREFIX}PATH")


def _unread_fields(order: RunRequest | TaskContract) -> Iterator[str]:
    kind = KINDS[order.task_type]
    given = order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    for name in sorted(kind.unread):
        if name == "artifacts":
            if without_memory(given):
                yield name
        elif name in order.__struct_fields__ and getattr(order, name) not in (default_of(order, name), ()):
            yield name
    if isinstance(order, TaskContract) and order.browser_policy is not None:
        yield "browser_policy"
    if kind.lands:
        return
    if order.repository is not None and (order.repository.landing != "none" or order.repository.target_ref):
        yield "repository.landing"
    if order.timeout_retry is not None and order.timeout_retry.max_retries:
        yield "timeout_retry.max_retries"
    if isinstance(order, TaskContract) and {each.name for each in order.required_outputs} - {kind.result}:
        yield "required_outputs"
