"""Orders by kind of run: fields that nothing in such a run reads, and fields that it needs and lacks."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import RunRequest, TaskContract
from gatewright.order_artifacts.canonical_memory import without_memory
from gatewright.rules.contracts import default_of
from gatewright.run.kinds import KINDS
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.contract.dispatch import FORBIDDEN

UNREAD = "field_unread"
LACKS = "request_incomplete"
RULE = "task_type"


def judge_kind(context: GateContext, order: RunRequest | TaskContract) -> None:
    """Judge the fields of an order by its kind.

    1. There are such runs.
    2. Nothing is given that the kind does not read. A run that lands nothing also has no landing, retries or other outputs.
    3. Nothing is missing that the kind needs; what a request leaves out, the pm refuses.
    """
    report, kind = context.report, KINDS[order.task_type]
    report.checked(RULE, kind.name)
    if not kind.opens:  # 1
        report.violate(FORBIDDEN, "dispatch.task_type", f"no run begins with {order.task_type}")
        return
    for name in _unread_fields(order):  # 2
        report.violate(UNREAD, RULE, f"{name}: a {kind.name} run does not read it")
    if isinstance(order, TaskContract):  # 3
        for name in ("allowed_paths", "acceptance_tests"):
            if name not in kind.unread and not getattr(order, name):
                report.violate(LACKS, RULE, f"{name}: a {kind.name} run needs it")
    if kind.reviews and kind.examines and order.source_branch is None:
        report.violate(LACKS, RULE, "source_branch: a review run needs the head of what it reviews")


def _unread_fields(order: RunRequest | TaskContract) -> Iterator[str]:
    kind = KINDS[order.task_type]
    given = order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    for name in sorted(kind.unread):
        if name == "artifacts":
            if without_memory(given):
                yield name
        elif name in order.__struct_fields__ and getattr(order, name) not in (default_of(order, name), ()):
            yield name
    if kind.lands:
        return
    if order.repository is not None and (order.repository.landing != "none" or order.repository.target_ref):
        yield "repository.landing"
    if order.timeout_retry is not None and order.timeout_retry.max_retries:
        yield "timeout_retry.max_retries"
    if isinstance(order, TaskContract) and {each.name for each in order.required_outputs} - {kind.result}:
        yield "required_outputs"
