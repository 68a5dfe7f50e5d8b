"""What a policy pack demands of the contract itself and of the change; breadth and permissions are judged elsewhere."""

from __future__ import annotations

from gatewright.contracts.vocabulary import PolicyPack, Repository, TimeoutRetry
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.services.gatekeeper.policies.packs import PackRules


def judge_pack(
    name: PolicyPack, repository: Repository | None, retry: TimeoutRetry | None, policies: Policies, found: GateReportBuilder
) -> PackRules:
    """The pack, once what it says about landing and retries has been checked."""
    pack = policies.packs.pack(name)
    rule = f"policy_pack.{name}"
    landing = repository.landing if repository is not None else "none"
    found.checked(f"{rule}.landing", landing)
    if landing not in pack.landing:
        words = f"a change under {name} may land on: {', '.join(pack.landing)}; this one asks for {landing}"
        found.violate("policy_pack_refused", f"{rule}.landing", words)
    if retry is not None:
        found.checked(f"{rule}.max_retries", f"{retry.max_retries} of {pack.max_retries}")
        if retry.max_retries > pack.max_retries:
            words = f"{retry.max_retries} retries, {name} allows {pack.max_retries}"
            found.violate("policy_pack_refused", f"{rule}.max_retries", words)
    return pack


def judge_pack_diff(name: PolicyPack | None, changed_files: int, policies: Policies, found: GateReportBuilder) -> None:
    """The size that the pack allows a whole change to have."""
    name = name or policies.packs.default
    most = policies.packs.pack(name).max_changed_files
    rule = f"policy_pack.{name}.max_changed_files"
    found.checked(rule, f"{changed_files} of {most}")
    if changed_files > most:
        found.violate("diff_too_large", rule, f"{changed_files} changed files, {name} allows {most}")
