"""Every file that a run's tasks submitted: digest, size, class, and origin (CHORUS, rules F.5 and S).

The class is that of the repository, ``internal``; ``restricted`` where a gate found a secret in the task's files. Nothing is
ever public here, and there is no statement on personal data, because it was not searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from gatewright.contracts import ProvenanceManifest
from gatewright.contracts.records import FileRecord
from gatewright.contracts.vocabulary import Surroundings
from gatewright.contracts.work_documents import ProvenanceOutput, ProvenanceTask
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.executor_kinds import EXECUTOR_KINDS

Class = Literal["internal", "restricted"]
#: Reason codes of the gates that have found something which not everybody may see.
_SECRET = ("secret",)


def provenance_of(history: RunHistory, listed: Mapping[str, FileRecord]) -> ProvenanceManifest:
    """The manifest of an ended run; ``listed`` are the files of its bundle by path."""
    run = history.run
    workers = [task.task_id for task in run.tasks.values() if task.role == "worker" and task.status != "PENDING"]
    tasks = [_work(history, task_id, listed) for task_id in workers]
    tasks += [_test_task(history, task_id, listed) for task_id in history.tests]
    return ProvenanceManifest(
        run_id=run.run_id,
        baseline_commit=run.accepted.baseline_commit,
        policy_sha256=run.accepted.policy_sha256,
        tasks=tuple(tasks),
    )


def _work(history: RunHistory, task_id: str, listed: Mapping[str, FileRecord]) -> ProvenanceTask:
    # A patch that was refused is evidence too, and has no accepted result.
    result = history.results.get(task_id)
    task = history.run.tasks.get(task_id)
    contract = task.contract if task else None
    executor = contract.executor if contract else None
    paths = [layout.task_patch(task_id), *(path for path in listed if path.startswith(f"results/{layout.safe(task_id)}/"))]
    paths += _artifacts(artifact.uri for artifact in result.artifacts) if result else ()
    return ProvenanceTask(
        task_id=task_id,
        agent=result.producer.agent_id if result else "",
        started_at=result.started_at if result else "",
        finished_at=result.finished_at if result else "",
        # One word a command: how it was split is not recorded.
        commands=tuple((command,) for command in executor.commands) if executor else (),
        egress_used="none",
        outputs=_outputs(paths, listed, _class(history, task_id)),
        environment=contract.environment.prefixes if contract and contract.environment else None,
        **_confinement(result.surroundings if result and executor and EXECUTOR_KINDS[executor.kind].runs_commands else None),
    )


def _test_task(history: RunHistory, task_id: str, listed: Mapping[str, FileRecord]) -> ProvenanceTask:
    report = history.tests[task_id]
    task = history.run.tasks.get(task_id)
    contract = task.contract if task else None
    paths = [layout.test(task_id), *(path for path in listed if path.startswith(f"ci/{layout.safe(task_id)}/"))]
    paths += _artifacts(artifact.uri for artifact in report.artifacts)
    return ProvenanceTask(
        task_id=task_id,
        agent=report.runner.agent_id,
        started_at=report.started_at,
        finished_at=report.finished_at,
        commands=tuple(command.cmd_argv for command in report.commands),
        egress_used="pull-only" if report.inventory is not None and report.inventory.requests else "none",
        outputs=_outputs(paths, listed, _class(history, task_id)),
        environment=contract.environment.prefixes if contract and contract.environment else None,
        **_confinement(report.surroundings) | {"sandbox": report.sandbox},
    )


def _confinement(known: Surroundings | None) -> dict[str, Any]:
    """Return what contained the commands of a task; nothing for a role that reported none."""
    if known is None or known.sandbox is None:
        return {}
    image = known.image.rpartition("@")[2] if known.image is not None else None
    facts = {"sandbox_facts": known.sandbox, "variables": known.variables}
    return {"image_digest": image, "sandbox": known.sandbox.get("sandbox"), **facts}


def _artifacts(uris: Iterable[str]) -> list[str]:
    digests = (layout.digest_of(uri) for uri in uris)
    return [layout.artifact(digest) for digest in digests if digest]


def _outputs(paths: Iterable[str], listed: Mapping[str, FileRecord], found: tuple[Class, str]) -> tuple[ProvenanceOutput, ...]:
    kind, basis = found
    records = (listed[path] for path in dict.fromkeys(paths) if path in listed)
    return tuple(
        ProvenanceOutput(path=each.path, sha256=each.sha256, size=each.size, classification=kind, basis=basis)
        for each in records
    )


def _class(history: RunHistory, task_id: str) -> tuple[Class, str]:
    for gate in history.gates:
        codes = [violation.code for violation in gate.violations if violation.code.startswith(_SECRET)]
        if codes and gate.task_id in {task_id, None}:
            return "restricted", f"the {gate.gate} gate: {codes[0]}"
    return "internal", "the class of the repository; no gate found a secret"
