"""6. Fix rounds: no more than the contract allows, each for a curable reason, after its back-off.

With several candidates, the landed one is the best by the rule, on facts in its own bundle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.artifacts import stored_uri
from gatewright.contracts import GateReport, TaskContract, codec
from gatewright.contracts.people.revision_orders import RevisionOrder
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, just_before, moment_of
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading
from gatewright.git.patches.lines import changed_lines
from gatewright.git.patches.version_moves import version_move
from gatewright.rules.repairs import revision_order
from gatewright.rules.reports.artifacts import broken_by_addresses
from gatewright.rules.rounds import CURABLE, granted_rounds, most_attempts, repairable
from gatewright.run import choice
from gatewright.run import events as e

ROUNDS = "rounds_contradict"


def check_rounds(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check rounds.

    1. Each is the next attempt, within the limit.
    2. Each is caused by a curable refusal of a gate, or by a rejection of people, whose comments it receives.
    3. Each waits for the back-off that the contract orders.
    """
    refusal: GateReport | None = None
    for moment in replayed.moments:
        contract = moment.before.contract
        match moment.payload:
            case e.GateJudged(report=report):
                refusal = report if report.verdict == "FAIL" else None
            case e.FixOrdered() if contract is not None:
                yield from _check_order(moment, moment.payload, contract, refusal)  # 1, 2
            case e.StateEntered(state="S2") if contract is not None and moment.before.state == "S5":
                yield from _check_pause(moment, contract)  # 3
            case _:
                pass


def _check_order(
    moment: Moment, event: e.FixOrdered, contract: TaskContract, refusal: GateReport | None
) -> Iterator[Contradiction]:
    run = moment.before
    most = most_attempts(contract) + granted_rounds(run)
    if event.attempt != run.attempt + 1 or event.attempt > most:
        words = f"attempt {event.attempt} was ordered after attempt {run.attempt}, and there may be {most}"
        yield moment.contradiction(ROUNDS, layout.EVENTS, layout.CONTRACT, words)
    if run.parked_from is None and refusal is None and run.refusal is not None and granted_rounds(run):
        refusal = run.refusal  # a person has granted one more round since
    refused = {state.failure for state in run.candidates.values()} or ({refusal.code} if refusal is not None else set())
    order = revision_order(run)
    by_people = order is not None and refusal is not None and event.reason == order.reason == refusal.code
    if order is not None and by_people:
        yield from _handed_over(moment, event, order)
    elif refusal is not None and refusal.code == event.reason and repairable(run, refusal) and run.state == "S5":
        return
    elif event.reason not in refused & CURABLE or run.state != "S5":
        words = f"fixing was ordered because of {event.reason}, which no gate had just refused for, or which cannot be cured"
        yield moment.contradiction(ROUNDS, layout.EVENTS, layout.EVENTS, words)


def _handed_over(moment: Moment, event: e.FixOrdered, order: RevisionOrder) -> Iterator[Contradiction]:
    """Check that the makers receive the revision order that follows from votes and comments of people."""
    uri = stored_uri(hashlib.sha256(codec.encode(order)).hexdigest())
    for contract in event.contracts:
        if contract.evidence_links[-1:] != (uri,):
            path = layout.task_contract(contract.task_id)
            yield moment.contradiction(ROUNDS, path, layout.EVENTS, "it does not include the comments of people on the change")


def _check_pause(moment: Moment, contract: TaskContract) -> Iterator[Contradiction]:
    since, when = just_before(moment.before.fix_ordered_at), moment_of(moment.record.ts)
    pause = contract.timeout_retry.retry_backoff_sec
    if since is not None and when is not None and (when - since).total_seconds() < pause:
        words = (
            f"the next round began {(when - since).total_seconds():.1f} s after it was ordered, and the pause is {pause:g} s"
        )
        yield moment.contradiction(ROUNDS, layout.EVENTS, layout.CONTRACT, words)


CHOICE = "choice_contradicts"


def check_choice(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check the choice.

    1. Its recorded facts follow from the events before it.
    2. The rule selects that candidate.
    """
    for moment in replayed.moments:
        if isinstance(moment.payload, e.CandidateComposed):
            composed = moment.payload
            for broken in broken_by_addresses((composed.patch, composed.names)):
                yield moment.contradiction(broken.code, layout.EVENTS, layout.EVENTS, broken.detail)
        if not isinstance(moment.payload, e.CandidateChosen):
            continue
        chosen, ranked = moment.payload, choice.standings(moment.whole)
        by_number = {standing.candidate: standing for standing in chosen.standings}
        for standing in ranked:  # 1
            if by_number.pop(standing.candidate, None) != standing:
                words = f"the recorded standing of candidate {standing.candidate} differs from its review, patch and cost"
                yield moment.contradiction(CHOICE, layout.EVENTS, layout.EVENTS, words)
        for number in sorted(by_number):
            yield moment.contradiction(CHOICE, layout.EVENTS, layout.CONTRACT, f"there is no candidate {number}")
        best = choice.best(ranked)
        if chosen.candidate != best or tuple(chosen.standings) != ranked:  # 2
            words = f"candidate {chosen.candidate} was chosen, but the rule selects {best or 'none'}: {choice.RULE}"
            yield moment.contradiction(CHOICE, layout.EVENTS, layout.EVENTS, words)


def check_sizes(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check that the recorded lines and version changes of each candidate are those of its signed patch, where the bundle has
    it.
    """
    places = {record.sha256: path for path, record in reading.listed.items()}
    for composed in replayed.history.candidates:
        path = places.get(layout.digest_of(composed.patch) or "", "")
        facts = reading.facts.get(path)
        if facts is None or facts.sha256 != reading.listed[path].sha256:
            continue
        patch = reading.document(path, step, limit=MAX_PATCH_BYTES)
        if patch is not None and composed.versions is not None and (moved := version_move(patch)) != composed.versions:
            words = f"the recorded version change is {composed.versions}, but the patch has {moved or 'another'}"
            yield Contradiction(CHOICE, layout.EVENTS, path, words)
        if patch is not None and (lines := changed_lines(patch)) != composed.changed_lines:
            words = f"{composed.changed_lines} changed lines were recorded, and the patch has {lines}"
            yield Contradiction(CHOICE, layout.EVENTS, path, words)
