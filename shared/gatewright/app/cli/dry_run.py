"""Decisions of the gates about a contract and a change, in this process and without a run.

The library does not import services. The two modules that answer are imported by name when needed, as a stack imports its
roles. ``services/gatekeeper/dry_run.py`` and ``services/pm/compile_request.py`` define questions and answers.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import msgspec
from msgspec.structs import replace

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts import GateReport, RoleContractSummary, RunRequest, TaskContract, codec
from gatewright.contracts.reports import RuleOutcome, Violation
from gatewright.contracts.vocabulary import Environment
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.foreign_documents import read_json
from gatewright.git.host.staged import staged_commit
from gatewright.reasons import advice_for
from gatewright.resources import policy_directory
from gatewright.secrets.selection import DEFAULT_SCANNER, load_ahead, local_catalogue
from gatewright.tasks.inputs import EVERY, environment_prefix
from gatewright.view.safe_text import printable
from gatewright.work_documents.remarks import first_lines, gate_remarks

#: Seconds that the gates may take.
PATIENCE = 600.0
_COMPILER = "gatewright.services.pm.compile_request"
_GATES = "gatewright.services.gatekeeper.dry_run"
#: Maximum violations to list; the others are counted.
MOST_VIOLATIONS = 50


class AnsweringModule(Protocol):
    """A module that answers questions, both as JSON. Raises GatewrightError if it cannot."""

    def answer(self, question: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ChangeLocation:
    """The location of a change: from ``baseline`` to the commit ``candidate``, or ``patch``. ``source`` has the objects."""

    source: str | None = None
    baseline: str | None = None
    candidate: str | None = None
    patch: bytes | None = None


class DryRunAnswer(msgspec.Struct, frozen=True):
    """The verdicts of the gates, and what they could not decide.

    ``judged_files``: number of changed files that were judged; None without a change.
    """

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    judged_files: int | None = None

    @property
    def passed(self) -> bool:
        return all(report.verdict == "PASS" for report in self.reports)

    @property
    def rules(self) -> tuple[tuple[str, RuleOutcome], ...]:
        """Return every rule that was applied, with its gate, in order."""
        return tuple((report.gate, rule) for report in self.reports for rule in report.rules)


def judge_environment(answer: DryRunAnswer, environment: Environment | None, listed: tuple[str, ...] | None) -> DryRunAnswer:
    """Return the answer with a verdict on the environment, which roles judge and no gate.

    ``listed``: the folders that the roles of this host offer; None where they are unknown.
    """
    if environment is None:
        return answer
    if listed is None:
        words = "the environment: no stack of this host shows which environments it offers; a run asks it"
        return replace(answer, unjudged=(*answer.unjudged, words))
    try:
        for each in environment.all:
            environment_prefix(each, tuple(map(Path, listed)))
    except DeniedError as error:
        shown = ", ".join(each for each in listed if not each.endswith(EVERY)) or "none"
        fault = f"{error.message}; offered: {shown}. Offer it with: gatewright up --env FOLDER"
        report = answer.reports[0]
        code = report.code if report.verdict == "FAIL" else error.reason
        violation = Violation(code=error.reason, rule="environment", detail=fault)
        rule = RuleOutcome(rule="environment", verdict="FAIL", detail=fault)
        violations, rules = (*report.violations, violation), (*report.rules, rule)
        report = replace(report, verdict="FAIL", code=code, violations=violations, rules=rules)
        return replace(answer, reports=(report, *answer.reports[1:]))
    return answer


def stack_environments(home: Path | None) -> tuple[str, ...] | None:
    """Return the environments of the local stack from its state file; None without a stack."""
    from gatewright.app.stack.state import read

    state = read(home) if home is not None else None
    return state.environments if state is not None else None


def read_contract(document: RunRequest | TaskContract) -> bytes:
    """Return the JSON of the contract: the given one, or the one that a request compiles to. Raises MalformedError."""
    if isinstance(document, TaskContract):
        return codec.encode(document)
    return _ask_module(_COMPILER, codec.encode(document))


def ask_gates(
    contract: bytes,
    change: ChangeLocation,
    *,
    policies: Path | None = None,
    judge_policy: bool,
    publisher: str | None = None,
    kind: str = "contract",
    empty_passes: bool = False,
) -> DryRunAnswer:
    """Return the decision of the gates; with ``publisher`` also whether it may submit this ``kind`` of document.

    An empty change is refused unless ``empty_passes`` is set or the contract is ``audit_only``.

    Raises:
        MalformedError: the contract is invalid.
        ConfigurationError: the policies cannot be used, or a gate did not answer (``gate_not_evaluated``).
        GitError: the change cannot be read.
    """
    question = {
        "contract": msgspec.Raw(contract),
        "policies": str(policies or policy_directory()),
        "judge_policy": judge_policy,
        "source": change.source,
        "baseline": change.baseline,
        "candidate": change.candidate,
        "patch": change.patch,
        "publisher": publisher,
        "kind": kind,
        "empty_passes": empty_passes,
    }
    if change.candidate is not None or change.patch is not None:
        # On another core: the native library releases the interpreter lock while it loads.
        load_ahead(DEFAULT_SCANNER, local_catalogue())
    return read_json(_ask_module(_GATES, msgspec.json.encode(question)), DryRunAnswer)


@contextmanager
def locate_change(start: Path, baseline: str, *, head: str, index: Path | None, use_index: bool) -> Iterator[ChangeLocation]:
    """Yield the change from ``baseline`` to ``head``, or to the content of the index, in the repository around ``start``.

    The repository is only read.

    Args:
        index: index file that git named, if it is not the default one.
        use_index: take the change from the index.

    Raises:
        GitError: the change cannot be read.
    """
    checkout = user_checkout(start)
    commit = checkout.resolve(baseline)
    if not use_index:
        yield ChangeLocation(str(checkout.folders.common), commit, checkout.resolve(head))
        return
    with tempfile.TemporaryDirectory(prefix="gatewright-staged-") as scratch:
        source, candidate = staged_commit(checkout, index, commit, Path(scratch))
        yield ChangeLocation(source, commit, candidate)


def _ask_module(module: str, question: bytes) -> bytes:
    """Return the answer of a module. Raises ConfigurationError (``gate_not_evaluated``) after ``PATIENCE`` seconds."""
    answers: list[bytes] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(cast("AnsweringModule", importlib.import_module(module)).answer(question))
        except BaseException as error:  # noqa: BLE001 - re-raised by the caller, in its own thread
            failures.append(error)

    # No executor: the end of the process would wait for its threads.
    asking = threading.Thread(target=ask, name=module, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    for failure in failures:
        raise failure
    if not answers:
        raise ConfigurationError(f"the gates gave no answer within {PATIENCE:.0f} s", code="gate_not_evaluated")
    return answers[0]


def rule_table(answer: DryRunAnswer) -> None:
    """Print every rule with its verdict and reason."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("gate")
    table.add_column("", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("why", overflow="fold")
    before = ""
    for gate, rule in answer.rules:
        mark = Text("✔", "green") if rule.verdict == "PASS" else Text("✘", "red")
        table.add_row(gate if gate != before else "", mark, Text(printable(rule.rule)), Text(printable(rule.detail)))
        before = gate
    Console(highlight=False).print(table)


def role_line(role: RoleContractSummary) -> str:
    """Format the role of a contract and its context on one line; only the contract is binding."""
    given, runtime = role.tool_permissions, role.runtime_binding
    bound = " ".join(each for each in (runtime.runner, runtime.provider, runtime.model) if each)
    words = f"role {role.identity.role} ({role.identity.agent_id}): filesystem {given.filesystem}, shell {given.shell}"
    return f"{words}, network {given.network}, tools {', '.join(role.resolved_mcp_tool_set)}{f', by {bound}' if bound else ''}"


def verdict_lines(answer: DryRunAnswer) -> list[str]:
    """Format the verdict, then each violation on a line."""
    violations = [violation for report in answer.reports for violation in report.violations]
    lines = [f"{'✔ would pass' if answer.passed else '✘ would be refused'}: {_verdict_word(answer)}"]
    for violation in violations[:MOST_VIOLATIONS]:
        where = f"{violation.path}: " if violation.path else ""
        lines.append(f"  {where}{violation.detail} [{violation.code}]")
    more = len(violations) - MOST_VIOLATIONS
    lines += [f"  ... and {more} more"] if more > 0 else []
    hints = dict.fromkeys(hint for violation in violations if (hint := advice_for(violation.code)))
    lines += [f"  advice: {hint}" for hint in hints]
    shown = first_lines((each for report in answer.reports for each in gate_remarks(report)), MOST_VIOLATIONS)
    lines += [f"  ! remark  {line}" for line in shown.lines]
    lines += [f"  ! remark  ... and {shown.more} more"] if shown.more else []
    lines += [f"  not judged: {words}" for words in answer.unjudged]
    return lines


def _verdict_word(answer: DryRunAnswer) -> str:
    if answer.judged_files is None:
        return "no change was judged"
    return f"{answer.judged_files} changed file{'' if answer.judged_files == 1 else 's'} judged"
