"""The model critic: asked about doubts before people, where an approval rule requires that. Pure.

``proceed`` answers the rule that asks the model, and no other. ``ask_person``, no answer and an inconsistent answer leave the
rule to its people. ``block`` ends the run. The decider acts by these rules, and ``verify`` derives the same from the ledger.
"""

from __future__ import annotations

from typing import Final

from gatewright.contracts.people.approvals import ApprovalRule, ModelCritic
from gatewright.contracts.people.summons import Recommendation, SummonsAnswer
from gatewright.run.state import AskedSummons, Run

#: Reason code of a run that a critic blocked.
CRITIC_BLOCKED: Final = "critic_blocked"
#: A doubt that no model may answer: the commands ran outside of a sandbox, so the evidence itself may be forged.
NEVER_BY_MODEL: Final = frozenset({"unconfined_tests"})
#: Findings named to people.
_NAMED: Final = 8


def critic_id(run: Run) -> str:
    """Return the task id of the question to the critic: one per round."""
    return f"{run.run_id}.summons.critic-{run.attempt}"


def critic_limits(run: Run) -> ModelCritic | None:
    """Return the limits of the first rule that asks a model about the doubts of the candidate; None without one."""
    codes = {trigger.code for trigger in run.routing.critic_triggers} if run.routing is not None else set()
    asking = (rule.model_first for rule in run.accepted.approval_rules if rule.reason == "critic")
    return next((limits for limits in asking if limits is not None and codes.intersection(limits.on)), None)


def asked_critic(run: Run) -> AskedSummons | None:
    """Return the question to the critic about the candidate; None before it is asked."""
    return run.summonses.get(critic_id(run))


def is_routed(run: Run) -> bool:
    """Return whether the candidate passed its tests, and its risk is known."""
    if run.state != "S4" or not run.tests_passed or run.candidate is None or run.routing is None:
        return False
    return run.routing.candidate_tree == run.candidate.tree


def is_critic_due(run: Run) -> bool:
    """Return whether the candidate is routed, leaves a doubt for a model, and no model was asked."""
    return is_routed(run) and asked_critic(run) is None and critic_limits(run) is not None


def awaits_critic(run: Run) -> bool:
    """Return whether the run waits for the critic's answer."""
    asked = asked_critic(run)
    return run.state == "S4" and asked is not None and asked.answer is None


def recommendation_of(answer: SummonsAnswer | None) -> Recommendation:
    """Return the effect of a critic's answer.

    1. No answer asks a person.
    2. ``block`` needs a finding at a place of the change.
    3. ``proceed`` beside a finding of high severity contradicts itself.
    """
    if answer is None or answer.status != "ANSWERED" or answer.critique is None:  # 1
        return "ask_person"
    wanted, findings = answer.critique.recommendation, answer.critique.findings
    unfounded = wanted == "block" and not findings  # 2
    contradictory = wanted == "proceed" and any(each.severity == "high" for each in findings)  # 3
    return "ask_person" if unfounded or contradictory else wanted


def doubt_words(run: Run, rule: ApprovalRule) -> str:
    """Return the doubts that the rule asks people about as text; empty when there are none, or its model answered them."""
    if run.routing is None:
        return "what leaves a doubt was not recorded"
    triggers = run.routing.critic_triggers
    words = "; ".join(f"{each.code}: {each.detail}" for each in triggers)
    asked = asked_critic(run)
    if rule.model_first is None or asked is None or not words:
        return words
    mine = all(each.code in rule.model_first.on for each in triggers)
    if mine and asked.answer is not None and recommendation_of(asked.answer) == "proceed":
        return ""
    return f"{critic_words(asked.answer)}; {words}" if asked.answer is not None else words


def critic_words(answer: SummonsAnswer) -> str:
    """Return a critic's answer as one line of text for people: its words are a model's."""
    if answer.status != "ANSWERED" or answer.critique is None:
        return f"the model critic did not answer ({answer.code})"
    found = [f"{each.path}:{each.line or '-'} {each.severity}: {each.message}" for each in answer.critique.findings[:_NAMED]]
    model = f" ({answer.consultation.model})" if answer.consultation is not None else ""
    wanted = answer.critique.recommendation.replace("_", " a ")
    return " ".join(f"the model critic{model} recommends to {wanted}: {'; '.join((answer.answer, *found))}".split())[:1000]
