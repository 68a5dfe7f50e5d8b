"""Asks the gates about a contract and a change, without a run: the gatekeeper's own code, in a process of its own.

The library does not import services; what is asked and answered is ``services/gatekeeper/dry_run.py``'s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gatewright.contracts import GateReport, RunRequest, TaskContract, codec
from gatewright.contracts.reports import RuleOutcome
from gatewright.errors import ConfigurationError, Fault, GatewrightError, GitError, MalformedError
from gatewright.git.host import staged
from gatewright.resources import policy_directory

#: Seconds that the gates are given.
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class ChangeLocation:
    """Where a change lies: ``source`` has its objects; from ``baseline`` to the commit ``candidate``, or ``patch``."""

    source: str | None = None
    baseline: str | None = None
    candidate: str | None = None
    patch: bytes | None = None


class DryRunAnswer(msgspec.Struct, frozen=True):
    """What the gates say, and what could not be asked."""

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(report.verdict == "PASS" for report in self.reports)

    @property
    def rules(self) -> tuple[tuple[str, RuleOutcome], ...]:
        """Every rule that was applied, with its gate, in order."""
        return tuple((report.gate, rule) for report in self.reports for rule in report.rules)


def read_contract(document: RunRequest | TaskContract) -> bytes:
    """The JSON of the contract: the one that was given, or the one that a request compiles to. Raises MalformedError."""
    if isinstance(document, TaskContract):
        return codec.encode(document)
    return _ask("gatewright.services.pm.compile_request", codec.encode(document))


def ask_gates(
    contract: bytes,
    change: ChangeLocation,
    *,
    policies: Path | None = None,
    judge_policy: bool,
    publisher: str | None = None,
    kind: str = "contract",
) -> DryRunAnswer:
    """The gates' answer; with ``publisher`` what it may submit as this ``kind``, too.

    Raises MalformedError, ConfigurationError, GitError.
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
    }
    return msgspec.json.decode(_ask("gatewright.services.gatekeeper.dry_run", msgspec.json.encode(question)), type=DryRunAnswer)


@contextmanager
def found_change(start: Path, baseline: str, *, head: str, index: Path | None, use_index: bool) -> Iterator[ChangeLocation]:
    """The change from ``baseline`` to ``head``, or to what the index holds, of the repository that ``start`` lies in.

    ``index``: the file that git names, where it is not the usual one.

    The repository is only read. Raises GitError.
    """
    commit = staged.head_commit(start, baseline)
    if not use_index:
        yield ChangeLocation(str(staged.common_directory(start)), commit, staged.head_commit(start, head))
        return
    with tempfile.TemporaryDirectory(prefix="gatewright-staged-") as scratch:
        source, candidate = staged.staged_commit(start, index, commit, Path(scratch))
        yield ChangeLocation(source, commit, candidate)


def run_module(module: str, question: bytes) -> tuple[int, bytes, bytes]:
    """Run a module's program on ``question``: exit code, standard output, standard error. Raises ConfigurationError."""
    argv = [sys.executable, "-P", "-m", module]
    try:
        finished = subprocess.run(argv, input=question, capture_output=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"the gates gave no answer within {PATIENCE:.0f} s", code="gate_not_evaluated") from error
    return finished.returncode, finished.stdout, finished.stderr


def _ask(module: str, question: bytes) -> bytes:
    code, answer, complaints = run_module(module, question)
    if code == 0:
        return answer
    try:
        told: dict[str, Any] = msgspec.json.decode(answer)["error"]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        words = complaints.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no words"]
        raise ConfigurationError(f"the gates could not be asked: {words[0]}", code="gate_not_evaluated") from error
    raise _error(told)


def _error(told: dict[str, Any]) -> GatewrightError:
    if told["kind"] == "MalformedError":
        faults = tuple(Fault(**fault) for fault in told["faults"])
        return MalformedError(told["message"], faults=faults, code=told["code"])
    kind = GitError if told["kind"] in {"GitError", "CommandFailedError", "PatchError"} else ConfigurationError
    return kind(told["message"], code=told["code"])
