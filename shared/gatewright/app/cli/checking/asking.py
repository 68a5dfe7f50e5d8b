"""Asks the gates about a contract and a change, without a run: the gatekeeper's own code, in this process.

The library does not import services: the two that answer are loaded by name when they are asked, as a stack starts its roles.
What is asked and answered is ``services/gatekeeper/dry_run.py``'s and ``services/pm/compile_request.py``'s.
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

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts import GateReport, RunRequest, TaskContract, codec
from gatewright.contracts.reports import RuleOutcome
from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import read_json
from gatewright.git.host.staged import staged_commit
from gatewright.resources import policy_directory
from gatewright.secrets.selection import DEFAULT_SCANNER, load_ahead, local_catalogue

#: Seconds that the gates are given.
PATIENCE = 600.0
_COMPILER = "gatewright.services.pm.compile_request"
_GATES = "gatewright.services.gatekeeper.dry_run"


class Answering(Protocol):
    """A module that answers questions, both as JSON. Raises GatewrightError when it cannot."""

    def answer(self, question: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ChangeLocation:
    """Where a change lies: ``source`` has its objects; from ``baseline`` to the commit ``candidate``, or ``patch``."""

    source: str | None = None
    baseline: str | None = None
    candidate: str | None = None
    patch: bytes | None = None


class DryRunAnswer(msgspec.Struct, frozen=True):
    """What the gates say, and what could not be asked.

    ``judged_files``: how many changed files were judged; None when no change was judged.
    """

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    judged_files: int | None = None

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
    return _ask(_COMPILER, codec.encode(document))


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
    """The gates' answer; with ``publisher`` what it may submit as this ``kind``, too.

    An empty change is refused unless ``empty_passes`` or the contract is ``audit_only``.

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
        "empty_passes": empty_passes,
    }
    if change.candidate is not None or change.patch is not None:
        # On another core: the native library does not hold this interpreter while it loads.
        load_ahead(DEFAULT_SCANNER, local_catalogue())
    return read_json(_ask(_GATES, msgspec.json.encode(question)), DryRunAnswer)


@contextmanager
def found_change(start: Path, baseline: str, *, head: str, index: Path | None, use_index: bool) -> Iterator[ChangeLocation]:
    """The change from ``baseline`` to ``head``, or to what the index holds, of the repository that ``start`` lies in.

    ``index``: the file that git names, where it is not the usual one.

    The repository is only read. Raises GitError.
    """
    checkout = user_checkout(start)
    commit = checkout.resolve(baseline)
    if not use_index:
        yield ChangeLocation(str(checkout.folders.common), commit, checkout.resolve(head))
        return
    with tempfile.TemporaryDirectory(prefix="gatewright-staged-") as scratch:
        source, candidate = staged_commit(checkout, index, commit, Path(scratch))
        yield ChangeLocation(source, commit, candidate)


def _ask(module: str, question: bytes) -> bytes:
    """The answer, waited for no longer than ``PATIENCE``: else ConfigurationError (``gate_not_evaluated``)."""
    answers: list[bytes] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(cast("Answering", importlib.import_module(module)).answer(question))
        except BaseException as error:  # noqa: BLE001 - raised below, where the question was put
            failures.append(error)

    # No executor: its threads are waited for when the process ends.
    asking = threading.Thread(target=ask, name=module, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    for failure in failures:
        raise failure
    if not answers:
        raise ConfigurationError(f"the gates gave no answer within {PATIENCE:.0f} s", code="gate_not_evaluated")
    return answers[0]
