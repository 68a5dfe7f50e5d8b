"""Requirements of a policy pack on the contract and the change; other modules judge breadth and permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Judging, PolicyPack
from gatewright.patterns import TextPattern
from gatewright.rules.landing import commit_subject
from gatewright.rules.reports.proof import Testing
from gatewright.run.kinds import RunKind
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.policies.packs import PackRules

#: Requirement of a pack on acceptance commands, as text.
_TESTING: Final[Mapping[Testing, str]] = {
    "recorded": "what acceptance commands prove is recorded; docs/testing.md lists what can be proved",
    "proved": "at least one acceptance command must be proved to test; docs/testing.md lists what can be proved",
}
_JUDGING: Final[Mapping[Judging, str]] = {
    "together": "one candidate is reviewed and tested at the same time",
    "in_turn": "a candidate is tested after a review that passed",
}


def judge_pack(context: GateContext, name: PolicyPack, order: RunRequest | TaskContract, kind: RunKind) -> PackRules:
    """Check the pack's rules about landing and requirements, only of a change, and about retries and limits.

    Returns:
        The rules of the pack.
    """
    report, repository, retry = context.report, order.repository, order.timeout_retry
    pack = context.policies.packs.pack(name)
    rule = f"policy_pack.{name}"
    landing = repository.landing if repository is not None else "none"
    report.checked(f"{rule}.landing", landing)
    if kind.lands and landing not in pack.landing:
        words = f"a change under {name} may land on: {', '.join(pack.landing)}; this one asks for {landing}"
        report.violate("policy_pack_refused", f"{rule}.landing", words)
    if retry is not None:
        report.checked(f"{rule}.max_retries", f"{retry.max_retries} of {pack.max_retries}")
        if retry.max_retries > pack.max_retries:
            words = f"{retry.max_retries} retries, {name} allows {pack.max_retries}"
            report.violate("policy_pack_refused", f"{rule}.max_retries", words)
    if kind.lands and pack.requirement is not None:
        report.checked(f"{rule}.requirement", pack.requirement)
        pattern = TextPattern(pack.requirement)
        named = (each for each in order.requirement_ids if pattern.fullmatch(each) is not None)
        if not pattern.is_in(commit_subject(order)) and next(named, None) is None:
            words = f"a change under {name} must name a requirement that matches {pack.requirement}"
            report.violate("requirement_missing", f"{rule}.requirement", words)
    report.checked(f"{rule}.limits", ", ".join(f"{key} {value:g}" for key, value in pack.limits if value is not None) or "none")
    for words in pack.limits.excesses(order):
        report.violate("limit_too_high", f"{rule}.limits", f"{words} under {name}")
    report.checked(f"{rule}.testing", _TESTING[pack.testing])
    report.checked(f"{rule}.mutation", _mutation(pack))
    report.checked(f"{rule}.judging", _JUDGING[pack.judging])
    return pack


def _mutation(pack: PackRules) -> str:
    rules = pack.mutation
    if rules is None:
        return "no mutants are tried"
    asked = "survivors are reported" if rules.must_kill is None else f"tests have to notice {rules.must_kill:.0%} of them"
    long = f"at least {rules.least_seconds:g} s and else {rules.time_share:.0%} of the tests' time"
    return f"at most {rules.most_mutants} mutants of the change are tried, for {long}; {asked}"


def judge_pack_diff(context: ChangeContext, changed_files: int) -> None:
    """Check that the whole change is no larger than the pack allows."""
    report, policies = context.report, context.policies
    name = context.contract.policy_pack or policies.packs.default
    most = policies.packs.pack(name).max_changed_files
    rule = f"policy_pack.{name}.max_changed_files"
    report.checked(rule, f"{changed_files} of {most}")
    if changed_files > most:
        report.violate("diff_too_large", rule, f"{changed_files} changed files, {name} allows {most}")
