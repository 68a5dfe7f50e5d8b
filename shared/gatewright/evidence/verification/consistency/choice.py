"""Of several candidates, the one that landed is the best by the rule, on facts that its own bundle holds."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Telling
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading
from gatewright.git.patches.lines import changed_lines
from gatewright.git.patches.version_moves import version_move
from gatewright.rules.reports.artifacts import broken_by_addresses
from gatewright.run import choice
from gatewright.run import events as e

CHOICE = "choice_contradicts"


def check_choice(telling: Telling) -> Iterator[Contradiction]:
    """1. what the choice is said to rest on is what the events before it tell  2. the rule leads to that candidate."""
    for moment in telling.moments:
        if isinstance(moment.payload, e.CandidateComposed):
            composed = moment.payload
            for broken in broken_by_addresses((composed.patch, composed.names)):
                yield moment.says(broken.code, layout.EVENTS, layout.EVENTS, broken.detail)
        if not isinstance(moment.payload, e.CandidateChosen):
            continue
        told, ranked = moment.payload, choice.standings(moment.whole)
        by_number = {standing.candidate: standing for standing in told.standings}
        for standing in ranked:  # 1
            if by_number.pop(standing.candidate, None) != standing:
                words = f"candidate {standing.candidate} is not told as its review, its patch and its cost are"
                yield moment.says(CHOICE, layout.EVENTS, layout.EVENTS, words)
        for number in sorted(by_number):
            yield moment.says(CHOICE, layout.EVENTS, layout.CONTRACT, f"there is no candidate {number}")
        best = choice.best(ranked)
        if told.candidate != best or tuple(told.standings) != ranked:  # 2
            words = f"candidate {told.candidate} was chosen, and by the rule it is {best or 'none'}: {choice.RULE}"
            yield moment.says(CHOICE, layout.EVENTS, layout.EVENTS, words)


def check_sizes(telling: Telling, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Lines and moves of versions that each candidate was recorded with are those of its patch, as far as that is there as it
    was signed."""
    places = {record.sha256: path for path, record in reading.listed.items()}
    for composed in telling.history.candidates:
        path = places.get(layout.digest_of(composed.patch) or "", "")
        facts = reading.facts.get(path)
        if facts is None or facts.sha256 != reading.listed[path].sha256:
            continue
        patch = reading.document(path, step, limit=MAX_PATCH_BYTES)
        if patch is not None and composed.versions is not None and (moved := version_move(patch)) != composed.versions:
            words = f"versions were recorded to move by {composed.versions}, and the patch says {moved or 'something else'}"
            yield Contradiction(CHOICE, layout.EVENTS, path, words)
        if patch is not None and (lines := changed_lines(patch)) != composed.changed_lines:
            words = f"{composed.changed_lines} changed lines were recorded, and the patch has {lines}"
            yield Contradiction(CHOICE, layout.EVENTS, path, words)
