"""The landed candidate is the best of several by the rule, on facts in its own bundle."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading
from gatewright.git.patches.lines import changed_lines
from gatewright.git.patches.version_moves import version_move
from gatewright.rules.reports.artifacts import broken_by_addresses
from gatewright.run import choice
from gatewright.run import events as e

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
