"""Rules about approvals in words: when a person is asked, where, who, what it takes, and what silence means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.contracts.people.approvals import ApprovalRule, AskReason
from gatewright.contracts.people.review_votes import OwnedPaths, ReviewQuorum
from gatewright.rules.approvals import ASKED_COMMANDS

#: Lines of CODEOWNERS that one rule shows.
MOST_OWNERS: Final = 100
_WHEN: Final[dict[AskReason, str]] = {
    "broad_scope": "A contract opens whole directories.",
    "network": "A contract asks for network access.",
    "agent": "A coding agent or a model makes the change.",
    "transfer": "Content of the repository would go to a provider of models.",
    "destructive": "A contract lists destructive acts.",
    "proof": "The proof of the tests shows what the policy pack wants a person to see.",
    "landing": "A change is ready to land.",
    "critic": "The evidence of a change leaves a doubt.",
    "review": "A change is ready to land, and a panel votes on it.",
    "escalation": "A change was refused three times, and needs one more round.",
    "blocked": "A task has a question; the run goes on.",
    "agent_question": "An agent asks whether it may run a command; the run goes on.",
}


@dataclass(frozen=True, slots=True)
class RuleWords:
    """One rule. ``owners``: by pattern of paths, who has the seat for them."""

    name: str
    risk: str
    when: str
    where: str
    who: str
    takes: str
    silence: str
    owners: tuple[tuple[str, str], ...] = ()


def rule_words(rule: ApprovalRule) -> RuleWords:
    """``rule`` in words."""
    return RuleWords(
        name=rule.name,
        risk=rule.risk,
        when=_when(rule),
        where=_where(rule),
        who=", ".join(rule.approvers),
        takes=_takes(rule),
        silence=_silence(rule),
        owners=tuple((each.pattern, ", ".join(each.owners) or "the domain") for each in _owned_paths(rule)),
    )


def _when(rule: ApprovalRule) -> str:
    match rule.reason:
        case "budget":
            return f"Models may cost more than {rule.above_usd or 0:g} USD, or no limit is set."
        case "command":
            return f"A contract runs commands of these classes: {', '.join(rule.commands or ASKED_COMMANDS)}."
        case "protected_class":
            return f"A change touches protected paths of these classes: {', '.join(rule.classes) or 'every class'}."
        case "path_class":
            return f"A change touches paths of the class {rule.name}: {', '.join(rule.paths)}."
        case "risk_tier":
            return f"A change is of {rule.from_tier} risk{'' if rule.from_tier == 'high' else ' or higher'}."
        case _:
            return _WHEN[rule.reason]


def _where(rule: ApprovalRule) -> str:
    repositories = f"Repositories {', '.join(rule.repositories)}" if rule.repositories else "Every repository"
    return f"{repositories}; {'branches ' + ', '.join(rule.refs) if rule.refs else 'every branch'}."


def _takes(rule: ApprovalRule) -> str:
    if rule.autopilot:
        return "No person: the gatekeeper approves what is of low risk."
    own = "also of a run of their own" if rule.yourself else "not of a run of their own"
    answer = _quorum(rule.quorum) if rule.quorum is not None else f"{_approvals_of(rule)}, {own}."
    phrase = f' The approver types: "{rule.phrase}".' if rule.phrase else ""
    again = " A refusal with a comment sends the change back to its maker." if rule.on_reject == "repair" else ""
    return f"{answer}{phrase}{again}"


def _approvals_of(rule: ApprovalRule) -> str:
    return "One approval" if rule.approvals == 1 else f"{rule.approvals} approvals by different people"


def _quorum(quorum: ReviewQuorum) -> str:
    counted = [name for name, counts in (("reviewer role", quorum.role_counts), ("model", quorum.model_counts)) if counts]
    seats = f"one vote for the domain ({', '.join(quorum.domain)}) and one for quality ({', '.join(quorum.quality)})"
    votes = (
        f"{quorum.reviewers} reviewers, {quorum.greens} of them green, or one green and {quorum.yellows} yellow; "
        f"a red vote blocks; {seats}"
    )
    duo = f"; {' and '.join(quorum.duo)} together may stand in for the domain" if quorum.duo else ""
    machines = f"; the {' and the '.join(counted)} may vote as well" if counted else ""
    return f"{votes}{duo}{machines}. No vote on a run of their own."


def _silence(rule: ApprovalRule) -> str:
    hours = rule.wait / 3600
    wait = f"{hours / 24:.3g} days" if hours >= 48 else f"{hours:.3g} hours" if hours >= 2 else f"{hours * 60:.3g} minutes"
    if rule.reason in {"blocked", "agent_question"}:
        return f"After {wait} the run goes on without an answer."
    if rule.escalate_to:
        return f"After {wait} these people are asked: {', '.join(rule.escalate_to)}. Then the run ends."
    return f"After {wait} the run ends, and nothing lands."


def _owned_paths(rule: ApprovalRule) -> tuple[OwnedPaths, ...]:
    return rule.quorum.owners[:MOST_OWNERS] if rule.quorum is not None and rule.quorum.by_owner else ()
