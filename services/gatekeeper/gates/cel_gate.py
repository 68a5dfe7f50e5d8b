"""Organisation rules at their three stages: builds the document that a rule sees, from data that the gatekeeper itself holds.

``policies/cel_rules.py`` has the engine, and a sample with every name. The fields that a rule may use are
listed by hand: a new contract field is neither exposed to rules nor removed from them by accident.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gatewright.contracts import ReviewReport, TaskContract, TestReport
from gatewright.contracts.vocabulary import Executor, Repository, Scope
from gatewright.errors import CommandRefusedError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, NO_CONTENT
from gatewright.git.paths import display
from gatewright.run.candidates import made_by
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.commands.gate import check_command
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.policies.cel_rules import Stage
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.worker_role import ways

CODE = "organisation_rule"
_CLASSES = ("sacred", "ci", "protected", "runner", "dependencies", "migrations", "plain")
Documents = Mapping[str, Any]


def judge_contract_rules(context: GateContext, contract: TaskContract) -> None:
    """Apply the rules about contracts, once for each candidate where there are several."""
    for executor in ways(contract) or (None,):
        _apply(context, "contract", {"contract": contract_document(contract, context.policies, executor)})


async def judge_diff_rules(
    context: ChangeContext, changes: Sequence[TreeChange], patch_bytes: int, executor: Executor | None
) -> None:
    """Apply the rules about the whole change.

    Args:
        context: the gate context with its mirror.
        changes: the changed paths of the whole change.
        patch_bytes: size of the patch in bytes.
        executor: the executor that made the change.

    Raises:
        GitError: the mirror cannot be read.
    """
    if _has_rules("diff", context.policies):
        documents = await _about_change(context, changes, patch_bytes, executor)
        _apply(context, "diff", documents)


async def judge_evidence_rules(context: ChangeContext, run: Run) -> None:
    """Apply the rules about the evidence, before the change lands.

    Raises:
        GitError: the mirror cannot be read.
        ArtifactError: an artifact cannot be read.
    """
    candidate = run.candidate
    if candidate is None or not _has_rules("evidence", context.policies):
        return
    changes = await context.mirror.changes(run.accepted.baseline_tree, candidate.tree)
    patch = await context.artifacts.get_artifact(candidate.patch)
    documents = await _about_change(context, changes, len(patch), made_by(run))
    _apply(context, "evidence", {**documents, "evidence": evidence_document(run, context.policies)})


def _has_rules(stage: Stage, policies: Policies) -> bool:
    return any(rule.header.stage == stage for rule in policies.rules)


def _apply(context: GateContext, stage: Stage, documents: Documents) -> None:
    report = context.report
    for rule in context.policies.rules:
        if rule.header.stage != stage:
            continue
        name = f"organisation.{rule.name}"
        report.checked(name, rule.header.message)
        if not any(seen.name == name for seen in report.evidence):
            report.saw(name, rule.sha256)
        if (refusal := rule.refusal(documents)) is not None:
            report.violate(CODE, name, refusal)


async def _about_change(
    context: ChangeContext, changes: Sequence[TreeChange], patch_bytes: int, executor: Executor | None
) -> dict[str, Any]:
    policies = context.policies
    asked = any(rule.header.needs == "sizes" for rule in policies.rules)
    sizes = await _sizes(changes, context.mirror) if asked else None
    diff = diff_document(changes, patch_bytes, sizes, policies)
    return {"contract": contract_document(context.contract, policies, executor), "diff": diff}


def contract_document(contract: TaskContract, policies: Policies, executor: Executor | None) -> dict[str, Any]:
    """Return the contract as rules see it: every field is present, whether the contract sets it or not.

    Args:
        contract: the contract.
        policies: the policies in force.
        executor: the contract's own executor, or that of the current candidate.
    """
    repository = contract.repository or Repository(url="-", landing="none")
    executor = executor or Executor(kind="command")
    opened = contract.scope or Scope()
    permissions = contract.tool_permissions
    return {
        "task_id": contract.task_id,
        "task_type": contract.task_type,
        "spec": contract.inputs.spec,
        "owner": {"role": contract.owner_agent.role, "agent_id": contract.owner_agent.agent_id},
        "assigned": {"role": contract.assigned_agent.role, "agent_id": contract.assigned_agent.agent_id},
        "policy_pack": contract.policy_pack or policies.packs.default,
        "allowed_paths": list(contract.allowed_paths),
        "acceptance_tests": [
            {"name": test.name, "cmd": test.cmd, "must_pass": test.must_pass} for test in contract.acceptance_tests
        ],
        "permissions": {
            "filesystem": permissions.filesystem,
            "shell": permissions.shell,
            "network": permissions.network,
            "mcp_tools": list(permissions.mcp_tools),
        },
        "repository": {"url": repository.url, "target_ref": repository.target_ref or "", "landing": repository.landing},
        "executor": {
            "kind": executor.kind,
            "commands": list(executor.commands),
            "artifacts": list(executor.artifacts),
            "agent": executor.agent or "",
            "model": executor.model or "",
        },
        "scope": {
            "allow_dependency_change": opened.allow_dependency_change,
            "allow_protected_paths": list(opened.allow_protected_paths),
            "allow": list(opened.allow),
            "destructive": list(opened.destructive),
        },
        "max_retries": contract.timeout_retry.max_retries,
        "strict_acceptance": contract.runtime_options is not None and contract.runtime_options.strict_acceptance,
        "tests": contract.tests,
        "audit_only": contract.audit_only,
        "requirement_ids": list(contract.requirement_ids),
        "forbidden_actions": list(contract.forbidden_actions),
    }


def diff_document(
    changes: Sequence[TreeChange], patch_bytes: int, sizes: Mapping[str, int] | None, policies: Policies
) -> dict[str, Any]:
    """Return the change as rules see it. It includes totals, so that a rule need not iterate over ten thousand files."""
    described = [_describe_change(change, sizes, policies) for change in changes]
    statuses = [change["status"] for change in described]
    classes = [name for change in described for name in change["classes"]]
    return {
        "changed_files": len(described),
        "added": statuses.count("added"),
        "modified": statuses.count("modified"),
        "deleted": statuses.count("deleted"),
        "patch_bytes": patch_bytes,
        "classes": {name: classes.count(name) for name in _CLASSES},
        "changes": described,
    }


def evidence_document(run: Run, policies: Policies) -> dict[str, Any]:
    """Return the evidence on the candidate as rules see it.

    Without a review or tests the fields are empty, so a rule about them denies.
    """
    return {
        "attempt": run.attempt,
        "baseline_commit": run.accepted.baseline_commit,
        "candidate_tree": run.candidate.tree if run.candidate is not None else "",
        "workers": len(run.workers()),
        "review": _review(run.review),
        "tests": _describe_tests(run.tests, policies),
    }


def _describe_change(change: TreeChange, sizes: Mapping[str, int] | None, policies: Policies) -> dict[str, Any]:
    status = "added" if change.old_mode == ABSENT else "deleted" if change.new_mode == ABSENT else "modified"
    described = {
        "path": display(change.path),
        "status": status,
        "old_mode": change.old_mode,
        "new_mode": change.new_mode,
        "classes": _classes(change.path, policies) or ["plain"],
    }
    return described if sizes is None else {**described, "size": sizes.get(change.new_id, 0)}


def _classes(path: bytes, policies: Policies) -> list[str]:
    """Return the names of the path classes.

    Content-dependent files are not sacred here: the gate itself refuses credentials.
    """
    return [
        str(each.name) for each in policies.path_classes(path) if each.name != "sacred" or not policies.content_decides(path)
    ]


async def _sizes(changes: Sequence[TreeChange], mirror: Mirror) -> dict[str, int]:
    """Return the size in bytes of each new object, by object id."""
    return await mirror.sizes({change.new_id for change in changes if change.new_mode not in NO_CONTENT})


def _review(review: ReviewReport | None) -> dict[str, Any] | None:
    if review is None:
        return None
    findings = [{"code": finding.code, "blocking": finding.blocking, "path": finding.path or ""} for finding in review.findings]
    return {"reviewer": review.reviewer.agent_id, "verdict": review.verdict, "findings": findings}


def _describe_tests(tests: TestReport | None, policies: Policies) -> dict[str, Any] | None:
    if tests is None:
        return None
    commands = [
        {
            "name": command.name,
            "argv": list(command.cmd_argv),
            "must_pass": command.must_pass,
            "exit_code": command.exit_code,
            "timed_out": command.timed_out,
            "run": command.run,
            "trivial": _is_trivial(command.cmd_argv, policies),
        }
        for command in tests.commands
    ]
    return {"runner": tests.runner.agent_id, "status": tests.status, "sandbox": tests.sandbox or "none", "commands": commands}


def _is_trivial(argv: Sequence[str], policies: Policies) -> bool:
    """Return whether strict acceptance would refuse the command. An unreadable command is trivial."""
    try:
        check_command(shlex.join(argv), "acceptance", policies, strict=True)
    except CommandRefusedError:
        return True
    return False
