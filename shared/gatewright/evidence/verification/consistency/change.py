"""9. Patch, list of names and shards cover the same files, all within the contract."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.evidence import layout
from gatewright.evidence.projection.names import quote_path
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading
from gatewright.git.paths import display
from gatewright.path_patterns.code_owners import by_line
from gatewright.rules.approvals import PATH_CLASS, touched_path_classes
from gatewright.rules.reports import completion
from gatewright.rules.reviewing import owned_lines
from gatewright.run.state import Run

CHANGE = "change_contradicts"
#: Inside a file's part every line begins with a sign, a letter of a length or a number of lines: no other line looks like this.
_HEADER = re.compile(rb"^diff --git (.*)$", re.MULTILINE)  # noqa: TID251 - linear: each try ends with its line
#: Maximum number of listed paths; further ones are counted.
_MOST_NAMED = 20


def check_change(replayed: ReplayedRun, reading: Reading, step: int) -> list[Contradiction]:
    """Check the change.

    1. The number of files is the recorded one.
    2. The files of the patch are those of the list.
    3. All are inside the contract's paths.
    4. Each is in one shard.
    5. The tree of a single worker is the candidate's.
    6. An audit changes nothing; anything else changes something.
    7. The required votes are those of the owners of its files, and the named classes of paths are those that it touches.
    8. The same holds for other candidates and rounds.
    """
    run, contract, changed = replayed.run, replayed.run.contract, replayed.changed
    if run.candidate is None or contract is None:
        return []
    found = list(_others(replayed, reading, contract, step))  # 8
    if len(changed) != run.candidate.changed_files:  # 1
        words = f"{len(changed)} paths are listed, and {run.candidate.changed_files} were recorded"
        found.append(Contradiction(CHANGE, layout.NAMES, layout.EVENTS, words))
    found += _check_patch(reading, layout.PATCH, changed, step)  # 2
    asked = (*_check_owners(run, changed), *_check_path_classes(run, changed)) if run.status == "SUCCESS" else ()
    if run.kind.examines:
        return [*found, *(asked if run.kind.voted else ())]  # 7
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
        found += asked  # 7
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


def _check_path_classes(run: Run, changed: tuple[bytes, ...]) -> Iterator[Contradiction]:
    touched = set(touched_path_classes(run.accepted.approval_rules, changed))
    named = {found.reason for found in run.reasons_found_now() if found.reason.startswith(PATH_CLASS)}
    if named != {f"{PATH_CLASS}{name}" for name in touched}:
        words = f"the change touches the classes {sorted(touched)}, and the gate named {sorted(named)}"
        yield Contradiction(CHANGE, layout.NAMES, layout.META, words)


def _others(replayed: ReplayedRun, reading: Reading, contract: TaskContract, step: int) -> Iterator[Contradiction]:
    """Check candidates that did not land, as far as the bundle has their lists and patches."""
    for composed in replayed.history.candidates:
        changed = replayed.known_changes(composed)
        if changed is None or composed == replayed.run.candidate:
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
    """Check the headers of a patch. git has one form for every path, so the expected headers are generated, not parsed."""
    listed, facts = reading.listed.get(place), reading.facts.get(place)
    if listed is None or facts is None or facts.sha256 != listed.sha256:
        # Not the signed patch, which step 3 reports.
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
