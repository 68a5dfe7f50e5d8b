"""Calls of changed functions, made again outside of the test runner: source that behaves differently under test is refused.

The test runner's facts (``CallReplay``) are judged here; nothing here reads source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from gatewright.contracts import TaskContract
from gatewright.contracts.reports import CallReplay, DifferingCall, TestProof
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.rules.broken import Broken
from gatewright.rules.reports.tests import Ordered, passed

#: Requirement of a policy pack: record differences, have a person decide on them, refuse them, or require that calls could be
#: compared, too.
Behaviour = Literal["recorded", "asked", "refused", "required"]

CODE: Final = "behaves_differently_under_test"
#: Of a pack that requires a proof, or the comparison.
UNPROVEN: Final = "tests_unproven"
#: The rule of all proofs.
RULE: Final = "test_proof"
#: Maximum number of listed functions.
MOST_LISTED: Final = 20
_OPENED: Final = "it passes only if the contract names this file in scope.allow_protected_paths"


def broken_by_replays(ordered: Sequence[Ordered], contract: TaskContract, *, required: bool) -> Iterator[Broken]:
    """Yield each function with another result outside of the test runner, except in files that the contract names.

    If ``required``, also each command whose calls could not be compared.
    """
    opened = contract.scope.allow_protected_paths if contract.scope is not None else ()
    for test, replay in _replays(ordered):
        name = test.name
        for call in replay.differ:
            if call.path not in opened:
                # Makers may read this, and must not learn what a hidden command calls.
                words = f"{call.function} differs outside of the test runner" if test.hidden else call_in_words(call)
                yield Broken(CODE, RULE, f"{name}: {words}; {_OPENED}", call.path.encode())
        if required and (replay.unproven or (replay.called and not replay.replayed)):
            yield Broken(UNPROVEN, RULE, f"{name}: {replay_in_words(replay)}")


def _replays(ordered: Sequence[Ordered]) -> Iterator[tuple[AcceptanceTest, CallReplay]]:
    for one in ordered:
        proof = one.final.proof
        if one.test.must_pass and passed(one.final) and proof is not None and proof.replay is not None:
            yield one.test, proof.replay


def call_in_words(call: DifferingCall) -> str:
    """Return for people what a function does in the test runner and outside."""
    function = f"{call.function}{call.arguments}"
    return f"{function} {call.under_test} in the test runner, and outside {call.in_production}"


def replay_in_words(replay: CallReplay) -> str:
    """Return the comparison in one line for people."""
    if replay.unproven:
        return f"behaviour outside of the tests is unknown: {replay.unproven}"
    words = (
        f"called {replay.called} of {replay.functions} functions in changed files: {replay.replayed} compared outside of the"
        f" test runner, {replay.differ_count} differ"
    )
    listed = ", ".join(call_in_words(call) for call in replay.differ[:3])
    more = f"; {replay.failed} calls fail outside" if replay.failed else ""
    if replay.by_surroundings:
        more += f"; {replay.by_surroundings} calls depend on the folder, data or variables of the tests"
    return words + (f": {listed}" if listed else "") + more


def is_doubtful(replay: CallReplay) -> bool:
    """Return whether people should see the comparison although the command succeeded."""
    odd = replay.differ_count or replay.failed or replay.by_surroundings
    return bool(replay.unproven or odd or (replay.functions and not replay.replayed))


def contradictions_of_replay(proof: TestProof, changed: frozenset[str] | None) -> Iterator[str]:
    """Check the facts against themselves: the functions are of changed files, and their numbers agree."""
    replay = proof.replay
    if replay is None:
        return
    if changed is not None and (strange := sorted({call.path for call in replay.differ} - changed)):
        yield f"calls of {strange[0]} were compared, which the change does not touch"
    if not replay.differ_count <= replay.replayed <= replay.called <= replay.functions or replay.replayed > replay.calls:
        yield "the numbers of functions, called, compared and differing ones contradict each other"
    if len(replay.differ) != min(replay.differ_count, MOST_LISTED):
        yield f"{replay.differ_count} functions differ, and {len(replay.differ)} are listed"
    if replay.unproven and replay.calls:
        yield "no call was compared, and some have results"
