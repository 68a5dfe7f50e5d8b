"""Changed code that no test uses: files, packages, and written lines that a coverage report shows as not executed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from gatewright.contracts.reports import ChangedCoverage, TestProof
from gatewright.rules.broken import Broken
from gatewright.rules.reports.replays import RULE
from gatewright.rules.reports.tests import Ordered, passed

#: Requirement on changed files that no test uses, and on tests that pass without the change. ``asked``: a person decides.
Untested = Literal["recorded", "asked", "refused"]

UNTESTED: Final = "untested_change"
MISSING: Final = "coverage_missing"
TOO_LOW: Final = "coverage_too_low"
#: Codes of the rules here.
CODES: Final = frozenset({UNTESTED, MISSING, TOO_LOW})
#: Spans of lines in a refusal.
_QUOTED: Final = 5


def untested_changes(ordered: Sequence[Ordered]) -> dict[str, list[str]]:
    """Return changed files that no command tests, as far as commands can detect: what happened in words, and the files.

    A file is untested if one command names it and each other one names it too or cannot judge it. Where a coverage report
    shows that its changed lines ran, it is not untested.
    """
    proofs = _reported_proofs(ordered)
    covered = {path for proof in proofs if proof.coverage is not None for path in proof.coverage.covered_files}
    named = [untested_by(proof) for proof in proofs]
    found = {}
    for path, words in {path: words for each in named for path, words in each.items()}.items():
        others = [proof for proof, names in zip(proofs, named, strict=True) if path not in names]
        if path not in covered and all(path.endswith(proof.unmeasured) for proof in others):
            found[path] = words
    return group_by_words(found)


def unmeasured_changes(ordered: Sequence[Ordered]) -> list[str]:
    """Return the endings of changed sources that no command judges."""
    proofs = _reported_proofs(ordered)
    return [each for each in proofs[0].unmeasured if all(each in proof.unmeasured for proof in proofs)] if proofs else []


def untested_by(proof: TestProof) -> dict[str, str]:
    """Return the changed files that one command does not test, each with what happened."""
    named = dict.fromkeys(proof.untouched, "changed, and loaded by no test")
    for each in proof.untested_packages:
        words = "no test of its package ran" if each.has_tests else "its package has no tests"
        named.update(dict.fromkeys(each.files, f"changed, and {words} ({each.folder})"))
    return named


def group_by_words(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files by what happened to them."""
    found: dict[str, list[str]] = {}
    for path, words in files.items():
        found.setdefault(words, []).append(path)
    return found


def broken_by_untested(ordered: Sequence[Ordered]) -> Iterator[Broken]:
    """Yield each changed file that no command tests."""
    for words, paths in untested_changes(ordered).items():
        for path in paths:
            yield Broken(UNTESTED, RULE, words, path.encode("utf-8", "surrogatepass"))


def broken_by_coverage(ordered: Sequence[Ordered]) -> Iterator[Broken]:
    """Yield each required command whose coverage report is unusable, or shows too few of the written lines as executed."""
    for test, command in ((one.test, one.final) for one in ordered if one.test.must_pass and passed(one.final)):
        if test.coverage is None:
            continue
        found = command.proof.coverage if command.proof is not None else None
        if found is None or found.fault:
            words = coverage_in_words(found) if found is not None else "the test runner recorded no coverage"
            yield Broken(MISSING, RULE, f"{test.name}: {words}")
        elif found.covered * 100 < test.coverage.changed_lines_percent * found.lines:
            words = f"{coverage_in_words(found)}; {test.coverage.changed_lines_percent} % required"
            yield Broken(TOO_LOW, RULE, f"{test.name}: {words}")


def contradictions_of_coverage(proof: TestProof, changed: frozenset[str] | None) -> Iterator[str]:
    """Yield why a recorded coverage is impossible. ``changed``: the candidate's paths; None when unknown."""
    found = proof.coverage or ChangedCoverage(file="none")
    if found.covered > found.lines or bool(found.covered) != bool(found.covered_files):
        yield f"{found.covered} of {found.lines} lines are covered, in {len(found.covered_files)} files"
    paths = {*found.covered_files, *(span.rpartition(":")[0] for span in found.uncovered)}
    if changed is not None and (strange := sorted(paths - changed)):
        yield f"the coverage names {strange[0]}, which the change does not touch"


def coverage_in_words(found: ChangedCoverage) -> str:
    """Return in one line for people what a coverage report shows of the written lines."""
    if found.fault:
        return f"coverage of changed lines unknown: {found.file}: {found.fault}"
    if not found.lines:
        return "coverage of changed lines: nothing to cover"
    more = ", ..." if len(found.uncovered) > _QUOTED else ""
    missed = f"; not executed: {', '.join(found.uncovered[:_QUOTED])}{more}" if found.uncovered else ""
    return f"coverage of changed lines: {found.covered} of {found.lines} ({found.covered * 100 // found.lines} %){missed}"


def _reported_proofs(ordered: Sequence[Ordered]) -> list[TestProof]:
    proofs = [one.final.proof for one in ordered if one.test.must_pass]
    return [proof for proof in proofs if proof is not None and proof.counts is not None]
