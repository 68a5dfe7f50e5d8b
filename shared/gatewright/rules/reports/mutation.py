"""Mutation testing: whether the tests detect small changes of the new code, by the test runner's samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from gatewright.contracts.reports import Evidence, Mutant, MutationSample
from gatewright.contracts.vocabulary import MutationBounds
from gatewright.rules.broken import Broken
from gatewright.rules.reports.tests import Ordered, passed

TOO_WEAK: Final = "tests_too_weak"
CODES: Final = frozenset({TOO_WEAK})
RULE: Final = "mutants"
#: Suffix of the evidence name of a sample.
EVIDENCE: Final = ".mutants"
#: Maximum number of survivors in a line for people.
_QUOTED = 5
_NOTICED = frozenset({"killed", "timed_out"})


def broken_by_mutants(ordered: Sequence[Ordered], bounds: MutationBounds) -> Iterator[Broken]:
    """Check the samples.

    1. A sample is consistent and within its bound.
    2. A required share was reached.

    A mutant is counted once for all commands, and is detected when one command detects it. Mutants with which no test could run
    are ignored. With a required share, possible but untried mutants prove nothing.
    """
    required = [one for one in ordered if one.test.must_pass]
    proofs = (one.final.proof for one in required)
    samples = [proof.mutation for proof in proofs if proof is not None and proof.mutation is not None]
    for sample in samples:  # 1
        if words := _contradiction(sample, bounds):
            yield Broken("report_contradicts", RULE, words)
            return
    if bounds.must_kill is None or not all(passed(one.final) for one in required):  # 2
        return
    outcomes = _outcomes(sample for sample in samples if not sample.unproven)
    counted = {mutant: noticed for mutant, noticed in outcomes.items() if noticed is not None}
    possible = max((sample.possible for sample in samples), default=0)
    if counted:
        share = sum(noticed for noticed in counted.values()) / len(counted)
        if share < bounds.must_kill:
            left = [mutant for mutant, noticed in counted.items() if not noticed]
            asked = f"{share:.0%} of {_mutants(len(counted))} noticed, {bounds.must_kill:.0%} are asked for"
            yield Broken(TOO_WEAK, RULE, f"{asked}: {_mutant_words(left)}", left[0].path.encode("utf-8", "surrogatepass"))
    elif possible > len(outcomes) or any(sample.unproven for sample in samples):
        why = next((sample.unproven for sample in samples if sample.unproven), "the time was over")
        yield Broken(TOO_WEAK, RULE, f"no mutant has shown anything: {why}")
    elif not samples and any(one.final.proof is not None and one.final.proof.framework for one in required):
        yield Broken(TOO_WEAK, RULE, "the test runner has tried no mutants")


def sample_in_words(sample: MutationSample) -> str:
    """Return the result of a sample in one line for people, with the survivors."""
    if sample.unproven:
        return f"mutants: {sample.unproven}"
    if not sample.possible:
        return "mutants: the written lines have none"
    if not sample.tried:
        why = "the time was over before the first" if sample.out_of_time else "the test runner names no reason"
        return f"no mutant was tried of {sample.possible} possible: {why}"
    survived = [mutant for mutant in sample.mutants if mutant.outcome == "survived"]
    invalid = sum(mutant.outcome == "invalid" for mutant in sample.mutants)
    words = f"{_mutants(sample.tried)} of {sample.possible} possible tried in {sample.seconds:.1f} s"
    words += ", when the time was over" if sample.out_of_time else ""
    words += f": {sample.tried - len(survived) - invalid} killed"
    words += f", {invalid} did not run" if invalid else ""
    return words + f", {len(survived)} survived" + (f": {_mutant_words(survived)}" if survived else "")


def is_doubtful(sample: MutationSample) -> bool:
    """Return whether people should see it: a mutant survived, nothing is known, or time ran out before all were tried."""
    if sample.unproven or sample.out_of_time or any(mutant.outcome == "survived" for mutant in sample.mutants):
        return True
    return sample.possible > 0 and not any(mutant.outcome in _NOTICED for mutant in sample.mutants)


def asked_in_words(bounds: MutationBounds) -> str:
    """Return the requirement as text."""
    asked = "survivors are reported" if bounds.must_kill is None else f"{bounds.must_kill:.0%} must be noticed"
    return f"at most {bounds.most_mutants}, {asked}"


def samples_of(ordered: Iterable[Ordered]) -> Iterator[tuple[str, MutationSample]]:
    """Yield the samples of commands, each with the name of its test."""
    for one in ordered:
        if one.final.proof is not None and (sample := one.final.proof.mutation) is not None:
            yield one.test.name, sample


def evidence_of(name: str, sample: MutationSample) -> Evidence:
    """Return the gate's evidence of a sample: a digest of everything in it, so that no survivor can be removed later."""
    return Evidence(name=f"{name}{EVIDENCE}", digest=sample_digest(sample))


def sample_digest(sample: MutationSample) -> str:
    """Return the digest of a whole sample."""
    return hashlib.sha256(msgspec.json.encode(sample, order="sorted")).hexdigest()


def _contradiction(sample: MutationSample, bounds: MutationBounds) -> str:
    if sample.tried != len(sample.mutants) or sample.tried > sample.possible:
        return f"{sample.tried} of {_mutants(sample.possible)} were tried, and {len(sample.mutants)} are reported"
    if sample.tried > bounds.most_mutants:
        return f"{_mutants(sample.tried)} were tried, and {bounds.most_mutants} are the most"
    if not sample.out_of_time and not sample.unproven and sample.tried < min(sample.possible, bounds.most_mutants):
        return f"{sample.tried} of {_mutants(sample.possible)} were tried, and there was time for more"
    if len({_identity(mutant) for mutant in sample.mutants}) != len(sample.mutants):
        return "a mutant is reported twice"
    return ""


def _outcomes(samples: Iterable[MutationSample]) -> dict[Mutant, bool | None]:
    """Return whether any command detected each mutant; None for one that no command could run."""
    known: dict[tuple[object, ...], Mutant] = {}
    noticed: dict[tuple[object, ...], bool | None] = {}
    for mutant in (mutant for sample in samples for mutant in sample.mutants):
        name = _identity(mutant)
        known.setdefault(name, mutant)
        ran = None if mutant.outcome == "invalid" else mutant.outcome in _NOTICED
        before = noticed.get(name)
        noticed[name] = ran if before is None else before or bool(ran)
    return {known[name]: outcome for name, outcome in noticed.items()}


def _identity(mutant: Mutant) -> tuple[object, ...]:
    return mutant.path, mutant.line, mutant.column, mutant.before, mutant.after


def _mutant_words(mutants: Sequence[Mutant]) -> str:
    shown = [f"{each.path}:{each.line} `{each.before}` -> `{each.after}`" for each in mutants[:_QUOTED]]
    more = len(mutants) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _mutants(number: int) -> str:
    return f"{number} mutant" if number == 1 else f"{number} mutants"
