"""9. Patch, list of names and shards are about the same files, and all of them are the contract's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.evidence import layout
from gatewright.evidence.projection.names import quote_path
from gatewright.evidence.verification.consistency.telling import Contradiction, Telling
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading
from gatewright.git.paths import display
from gatewright.path_patterns.code_owners import by_line
from gatewright.rules.reports import completion
from gatewright.rules.reviewing import owned_lines
from gatewright.run.state import Run

CHANGE = "change_contradicts"
#: Inside a file's part every line begins with a sign, a letter of a length or a number of lines: no other line looks like this.
_HEADER = re.compile(rb"^diff --git (.*)$", re.MULTILINE)  # noqa: TID251 - linear: each try ends with its line
#: Paths that are named one by one; the rest is counted.
_MOST_NAMED = 20


def check_change(telling: Telling, reading: Reading, step: int) -> list[Contradiction]:
    """1. as many files as were recorded  2. the patch's files are those of the list  3. all inside the contract's paths
    4. each in one shard  5. a lone worker's tree is the candidate's  6. an audit changes nothing, anything else something
    7. the owners whose votes were wanted are those of its files  8. what other candidates and rounds composed holds so, too."""
    run, contract, changed = telling.run, telling.run.contract, telling.changed
    if run.candidate is None or contract is None:
        return []
    found = list(_others(telling, reading, contract, step))  # 8
    if len(changed) != run.candidate.changed_files:  # 1
        words = f"{len(changed)} paths are listed, and {run.candidate.changed_files} were recorded"
        found.append(Contradiction(CHANGE, layout.NAMES, layout.EVENTS, words))
    found += _check_patch(reading, layout.PATCH, changed, step)  # 2
    for path in scope.outside(contract.allowed_paths, changed)[:_MOST_NAMED]:  # 3
        words = f"{display(path)} is outside the contract's paths"
        found.append(Contradiction("path_out_of_scope", layout.NAMES, layout.CONTRACT, words))
    workers = run.workers()
    plan = layout.task_plan(run.plan.task_id) if run.plan is not None else layout.EVENTS
    if run.status == "SUCCESS":
        for broken in list(completion.files_without_owner(run, contract, changed))[:_MOST_NAMED]:  # 4
            found.append(Contradiction(CHANGE, layout.NAMES, plan, f"{display(broken.path or b'')}: {broken.detail}"))
        for broken in completion.audit(contract, changed):  # 6
            found.append(Contradiction(CHANGE, layout.NAMES, layout.CONTRACT, broken.detail))
        found += _check_owners(run, changed)  # 7
    if len(workers) == 1 and workers[0].tree != run.candidate.tree:  # 5
        words = f"the only worker made tree {workers[0].tree}, and {run.candidate.tree} was composed"
        found.append(Contradiction(CHANGE, layout.GIT_CANDIDATE, layout.EVENTS, words))
    return found


def _check_owners(run: Run, changed: tuple[bytes, ...]) -> Iterator[Contradiction]:
    quorums = (rule.quorum for rule in run.accepted.approval_rules if rule.quorum is not None and rule.quorum.by_owner)
    owned = next((quorum.owners for quorum in quorums), None)
    if owned is None:
        return
    expected, named = set(by_line(owned, changed)), set(owned_lines(run))
    if expected != named:
        words = f"the change falls under the lines {sorted(expected)} of the file of owners, and the gate named {sorted(named)}"
        yield Contradiction(CHANGE, layout.NAMES, layout.META, words)


def _others(telling: Telling, reading: Reading, contract: TaskContract, step: int) -> Iterator[Contradiction]:
    """Candidates that did not land, as far as the bundle holds their lists and patches."""
    for composed in telling.history.candidates:
        changed = telling.known_changes(composed)
        if changed is None or composed == telling.run.candidate:
            continue
        if len(changed) != composed.changed_files:
            words = f"{len(changed)} paths are listed, and {composed.changed_files} were recorded of tree {composed.tree}"
            yield Contradiction(CHANGE, layout.EVENTS, layout.EVENTS, words)
        for path in scope.outside(contract.allowed_paths, changed)[:_MOST_NAMED]:
            words = f"{display(path)} is outside the contract's paths"
            yield Contradiction("path_out_of_scope", layout.EVENTS, layout.CONTRACT, words)
        if (place := reading.place_of(composed.patch)) is not None:
            yield from _check_patch(reading, place, changed, step)


def _check_patch(reading: Reading, place: str, changed: tuple[bytes, ...], step: int) -> Iterator[Contradiction]:
    """git writes every path in one way, so the headers that there must be can be written, and none has to be read."""
    listed, facts = reading.listed.get(place), reading.facts.get(place)
    if listed is None or facts is None or facts.sha256 != listed.sha256:
        # Not the patch that was signed, which step 3 has found.
        return
    patch = reading.document(place, step, limit=MAX_PATCH_BYTES)
    if patch is None:
        return
    expected = {_header(path) for path in changed}
    there = {match[1] for match in _HEADER.finditer(patch)}
    for header in sorted(there - expected)[:_MOST_NAMED]:
        words = f"the patch is about {display(header)}, which is not listed"
        yield Contradiction(CHANGE, place, layout.NAMES, words)
    for header in sorted(expected - there)[:_MOST_NAMED]:
        yield Contradiction(CHANGE, place, layout.NAMES, f"the patch has nothing about {display(header)}, which is listed")


def _header(path: bytes) -> bytes:
    return f"{quote_path(b'a/' + path)} {quote_path(b'b/' + path)}".encode("ascii")
