"""Step 7 of a verification: applies the rules that decided during the run to all its records again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.approvals import approved_by, check_approvals, check_evidence
from gatewright.evidence.verification.consistency.budgets import check_budgets
from gatewright.evidence.verification.consistency.change import check_change
from gatewright.evidence.verification.consistency.ending import check_ending
from gatewright.evidence.verification.consistency.gates import check_gates
from gatewright.evidence.verification.consistency.inventories import check_inventories
from gatewright.evidence.verification.consistency.memory_and_findings import check_citations, check_memory
from gatewright.evidence.verification.consistency.orders import check_orders
from gatewright.evidence.verification.consistency.queue_receipt import check_queue_receipt
from gatewright.evidence.verification.consistency.recomputed.acceptance import check_acceptance
from gatewright.evidence.verification.consistency.recomputed.events import check_labels, check_times
from gatewright.evidence.verification.consistency.recomputed.rosters import check_rosters
from gatewright.evidence.verification.consistency.recomputed.tasks import check_tasks
from gatewright.evidence.verification.consistency.recomputed.verdicts import check_verdicts
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun, replay_history
from gatewright.evidence.verification.consistency.reports import check_reports
from gatewright.evidence.verification.consistency.rounds_and_choice import check_choice, check_rounds, check_sizes
from gatewright.evidence.verification.consistency.routing import check_routing
from gatewright.evidence.verification.consistency.sequence import check_sequence
from gatewright.evidence.verification.consistency.subjects import check_signed, check_subjects
from gatewright.evidence.verification.consistency.summons import check_summons
from gatewright.evidence.verification.consistency.tables import check_played, check_tables
from gatewright.evidence.verification.consistency.transfers import check_recorded_calls, check_transfers
from gatewright.evidence.verification.reading import Reading

#: A rule met a value that it cannot judge.
UNJUDGED = "unjudgeable"
_T = TypeVar("_T")
Check = Callable[[ReplayedRun], Iterable[Contradiction]]
#: A check that also reads files of the bundle.
FileCheck = Callable[[ReplayedRun, Reading, int], Iterable[Contradiction]]
CHECKS_OF_FILES: tuple[FileCheck, ...] = (
    check_change,
    check_tables,
    check_played,
    check_sizes,
    check_evidence,
    check_memory,
    check_recorded_calls,
    check_queue_receipt,
    check_citations,
    check_inventories,
)
CHECKS: tuple[Check, ...] = (
    check_subjects,
    check_acceptance,
    check_sequence,
    check_labels,
    check_times,
    check_orders,
    check_tasks,
    check_gates,
    check_verdicts,
    check_reports,
    check_rounds,
    check_choice,
    check_budgets,
    check_approvals,
    check_rosters,
    check_routing,
    check_transfers,
    check_summons,
    check_ending,
)


def check_consistency(reading: Reading, step: int) -> str:
    """7. Check that the documents do not contradict each other.

    1. subjects: every document is about this run, its contract and its baseline
    2. sequence: nothing happens before its precondition, and time does not go back
    3. orders: contract, plan and tasks order the same
    4. gates: every step was permitted by a gate, no refusal was skipped, and verdicts agree with themselves and with what they
       examined
    5. reports: review, tests and results support their verdicts
    6. rounds: no more than the contract allows, each for a reason; and of several candidates the best by the rule
    7. budgets: no budget was exceeded
    8. ending: landing and end follow from all that
    9. change: patch, list of names and shards cover the same files
    10. signed: the two statements agree
    11. tables: reports count the tests in their stored tables, and verdicts name their results
    12. sizes: candidates changed the recorded number of lines
    13. approvals: people were asked by the rules, and every decision is signed by an authorised person about exactly that
        request
    14. routing: the risk was assessed by the rules, before anything relied on it
    15. evidence: references of votes exist in the run
    16. memory: memory of earlier runs is of its publisher, on its repository, within the bounds of its policy
    17. transfers: data for model providers was listed and approved
    18. summonses: questions to roles were within the bounds, and answers match them
    19. recorded calls: recorded model calls are covered by the manifests of 17.
    20. queue receipt: the receipt of a merge queue proves the landing
    21. citations: the quotes of a search stand in its stored sources
    22. inventories: figures on environments follow from their stored inventories
    """
    history = reading.history
    if history is None:
        return "the events could not be replayed"
    try:
        replayed = replay_history(history, reading.names, reading.names_of)
    except MalformedError as error:
        reading.findings.malformed(step, error.reason, layout.EVENTS, error.message)
        return "the events cannot be followed"
    checks: list[Callable[[], Iterable[Contradiction]]]
    checks = [partial(check, replayed) for check in CHECKS]  # 1 to 8, 13, 14, 17, 18
    checks += [partial(check, replayed, reading, step) for check in CHECKS_OF_FILES]  # 9, 11, 12, 15, 16, 19 to 22
    checks.append(partial(check_signed, reading))  # 10
    found = [contradiction for check in checks for contradiction in _run_check(check, reading, step)]
    reading.approved.extend(_run_check(partial(approved_by, replayed), reading, step))
    for contradiction in dict.fromkeys(found):
        reading.findings.contradiction(step, *contradiction)
    return ""


def _run_check(check: Callable[[], Iterable[_T]], reading: Reading, step: int) -> list[_T]:
    """Return the findings of a check. A value that its rules cannot judge, such as an invalid time, is a finding too."""
    found: list[_T] = []
    try:
        found.extend(check())
    except MalformedError as error:
        reading.findings.malformed(step, error.reason, layout.EVENTS, error.message)
    except (ValueError, TypeError, OverflowError) as error:
        reading.findings.malformed(step, UNJUDGED, layout.EVENTS, f"a rule cannot judge a value of the events: {error}")
    return found
