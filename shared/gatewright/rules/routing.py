"""Risk of a change by rule, and the review lanes that follow. Pure.

The tier is that of the highest signal, and an unknown signal is never low. Routing approves nothing: gates and people do. The
gatekeeper records the document by these rules, and ``verify`` recomputes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gatewright.contracts import ReviewReport, ReviewRouting, RoutingRules, TaskContract, TestReport
from gatewright.contracts.people.approvals import Risk, TriggerCode
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.routing import CriticTrigger, ModelTester, ReviewLane, RoutingSignal, SignalName
from gatewright.errors import DeniedError
from gatewright.git.paths import folded_path
from gatewright.rules.approvals import TIERS, contract_digest, found_words, matching_rules, stage_of
from gatewright.rules.critic import critic_limits
from gatewright.rules.model_tester import tester_limits
from gatewright.run.state import Run

#: From this round on a repeatedly refused change has high risk.
MANY_ROUNDS = 3
_NAMED = 8


def is_due(run: Run) -> bool:
    """Return whether the candidate has passed every gate before the landing, or its review, and has no recorded routing."""
    ready = run.tests_passed if run.state == "S4" else run.state == "S3"
    if run.accepted.routing is None or not ready or stage_of(run) != "candidate" or run.candidate is None:
        return False
    return run.routing is None or run.routing.candidate_tree != run.candidate.tree


def path_kinds(rules: RoutingRules, paths: Iterable[bytes]) -> dict[str, int]:
    """Count the changed paths of ``high`` and ``low`` risk by location, and the ``other`` ones.

    High-risk patterns ignore case. Low-risk patterns match exactly and exclude high-risk paths.
    """
    high = PathPatterns(rules.high_paths, folded=True)
    low = PathPatterns(rules.low_paths, folded=False)
    counts = {"high": 0, "low": 0, "other": 0}
    for path in paths:
        counts["high" if high.cover(path) else "low" if low.cover(path) else "other"] += 1
    return counts


def route(run: Run) -> ReviewRouting:
    """Return the routing of the run's candidate.

    1. The signals.
    2. The tier: the highest signal.
    3. The doubts.
    4. The lanes that follow.

    Raises:
        DeniedError: the run is not ready for routing (``gate_not_evaluated``).
    """
    rules, contract, candidate = run.accepted.routing, run.contract, run.candidate
    tests_missing = run.tests is None and run.kind.tests
    if rules is None or contract is None or candidate is None or tests_missing or run.review is None:
        raise DeniedError("there is nothing to route yet", code="gate_not_evaluated")
    triggers = tuple(_triggers(run, run.review, run.tests))
    signals = tuple(_signals(run, rules, contract, triggers))  # 1
    tier = max((signal.tier for signal in signals), key=TIERS.index)  # 2
    routing = ReviewRouting(
        run_id=run.run_id,
        attempt=run.attempt,
        contract_sha256=contract_digest(contract),
        candidate_tree=candidate.tree,
        tier=tier,
        signals=signals,
        critic_triggers=triggers,  # 3
        lanes=(),
    )
    # Approval rules may depend on the tier.
    lanes = tuple(_lanes(replace(run, routing=routing), run.review, run.tests))  # 4
    return ReviewRouting(**{name: getattr(routing, name) for name in routing.__struct_fields__} | {"lanes": lanes})


def _signals(
    run: Run, rules: RoutingRules, contract: TaskContract, triggers: tuple[CriticTrigger, ...]
) -> Iterator[RoutingSignal]:
    yield _paths(run)
    protected = "; ".join(found_words(run, "protected_class:"))
    yield _signal("protected", "high" if protected else "low", protected or "no protected path is changed")
    opened = ", ".join(contract.scope.allow) if contract.scope is not None else ""
    yield _signal("kinds", "medium" if opened else "low", f"the contract opens: {opened}" if opened else "no kind is opened")
    yield _size(run, rules)
    yield _permissions(run, contract)
    if run.kind.tests:
        yield _by_triggers("validation", triggers, "every command that had to pass has shown its tests")
    else:
        yield _signal("validation", "medium", "a review runs no command")
    rounds = f"round {run.attempt} of the run" if run.attempt > 1 else "the first round of the run"
    yield _signal("history", "high" if run.attempt >= MANY_ROUNDS else "medium" if run.attempt > 1 else "low", rounds)
    yield _by_triggers("review", triggers, "the reviewer has left no finding")


def _paths(run: Run) -> RoutingSignal:
    kinds = run.candidate.path_kinds if run.candidate is not None else None
    if kinds is None:
        return _signal("paths", "high", "it was not recorded where the changed files lie")
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    if kinds.get("high", 0):
        return _signal("paths", "high", f"changed files by their place: {words}")
    only_low = kinds.get("low", 0) > 0 and not kinds.get("other", 0)
    return _signal("paths", "low" if only_low else "medium", f"changed files by their place: {words}")


def _size(run: Run, rules: RoutingRules) -> RoutingSignal:
    files = run.candidate.changed_files if run.candidate is not None else 0
    lines = run.candidate.changed_lines if run.candidate is not None else None
    words = f"{files} files, {'an unknown number of' if lines is None else lines} lines"
    if files > rules.high_files or (lines is not None and lines > rules.high_lines):
        return _signal("size", "high", words)
    small = files <= rules.low_files and lines is not None and lines <= rules.low_lines
    return _signal("size", "low" if small else "medium", words)


def _permissions(run: Run, contract: TaskContract) -> RoutingSignal:
    found = []
    if contract.tool_permissions.network != "deny":
        found.append(f"network: {contract.tool_permissions.network}")
    if contract.scope is not None and contract.scope.destructive:
        found.append(f"destructive: {', '.join(contract.scope.destructive)}")
    found += [f"broad scope: {words}" for words in found_words(run, "broad_scope")]
    return _signal("permissions", "high" if found else "low", "; ".join(found) or "nothing beyond the usual")


#: Signal of each doubt, and its tier.
_WEIGHTS: dict[TriggerCode, tuple[SignalName, Risk]] = {
    "unconfined_tests": ("validation", "high"),
    "proof_missing": ("validation", "medium"),
    "mutants_survived": ("validation", "medium"),
    "passed_second_time": ("validation", "medium"),
    "findings_left": ("review", "medium"),
    "rounds_refused": ("history", "medium"),
}


def _by_triggers(signal: SignalName, triggers: tuple[CriticTrigger, ...], fine: str) -> RoutingSignal:
    mine = [trigger for trigger in triggers if _WEIGHTS[trigger.code][0] == signal]
    tiers: list[Risk] = ["low", *(_WEIGHTS[trigger.code][1] for trigger in mine)]
    tier = max(tiers, key=TIERS.index)
    return _signal(signal, tier, "; ".join(trigger.detail for trigger in mine) or fine)


def _signal(name: SignalName, tier: Risk, detail: str) -> RoutingSignal:
    return RoutingSignal(signal=name, tier=tier, detail=detail[:2000])


def _triggers(run: Run, review: ReviewReport, tests: TestReport | None) -> Iterator[CriticTrigger]:
    """Yield doubts for a critic: 1. findings 2. tests outside a sandbox 3. no proof 4. flaky tests 5. mutants 6. rounds.

    A review without tests has findings alone.
    """
    if review.findings:  # 1
        codes = ", ".join(sorted({finding.code for finding in review.findings})[:_NAMED])
        yield _trigger("findings_left", f"{len(review.findings)} findings that do not block: {codes}", review.task_id)
    if tests is None:
        return
    refs = (tests.task_id,)
    if tests.sandbox in {None, "none"}:  # 2
        yield _trigger("unconfined_tests", "the commands ran outside of a sandbox", *refs)
    final = {command.name: command for command in tests.commands if command.must_pass}
    unproven = sorted(name for name, command in final.items() if not _is_proved(command))
    if unproven or not final:  # 3
        words = f"nothing shows what was tested by: {', '.join(unproven[:_NAMED])}" if final else "no command had to pass"
        yield _trigger("proof_missing", words, *refs)
    again = sorted(name for name, command in final.items() if command.run > 1)
    if again:  # 4
        yield _trigger("passed_second_time", f"passed only when run again: {', '.join(again[:_NAMED])}", *refs)
    survived = sum(_survivors(command) for command in final.values())
    if survived:  # 5
        yield _trigger("mutants_survived", f"{survived} mutants that no test noticed", *refs)
    if run.attempt > 1:  # 6
        yield _trigger("rounds_refused", f"{run.attempt - 1} rounds were refused before this one")


def _trigger(doubt: TriggerCode, detail: str, *refs: str | None) -> CriticTrigger:
    return CriticTrigger(code=doubt, detail=detail[:2000], refs=tuple(ref for ref in refs if ref))


def _is_proved(command: TestCommand) -> bool:
    """Return whether all tests reported an outcome, or a tool detected a planted error."""
    proof = command.proof
    if proof is None or proof.unproven:
        return False
    counted = proof.complete and proof.counts is not None and proof.counts.passed > 0
    return counted or (proof.check is not None and proof.check.noticed and not proof.check.switched_off)


def _survivors(command: TestCommand) -> int:
    sample = command.proof.mutation if command.proof is not None else None
    return sum(mutant.outcome == "survived" for mutant in sample.mutants) if sample is not None else 0


def _lanes(run: Run, review: ReviewReport, tests: TestReport | None) -> Iterator[ReviewLane]:
    """Yield the review lanes: of commits under review, neither work nor landing. ``run`` has its routing, without the lanes."""
    if tests is not None:
        yield from _lanes_before_review(run, tests)
    yield ReviewLane(
        lane="review",
        owner=review.reviewer.agent_id,
        authority="read_only",
        required=True,
        status="done",
        reason="every change is looked at by one who did not make it",
        satisfies="reviewer",
        refs=(review.task_id,) if review.task_id else (),
    )
    yield _opinion(review)
    wanted = run.accepted.routing.model_tester if run.accepted.routing is not None else None
    if tests is not None and wanted is not None:
        yield _tester(run, wanted)
    yield _people(run, critic=True)
    yield _people(run, critic=False)
    if tests is not None:
        yield _landing_lane()


def _lanes_before_review(run: Run, tests: TestReport) -> Iterator[ReviewLane]:
    """Yield the lanes of a change before its review."""
    makers = [task for task in run.workers() if task.result is not None]
    names = sorted({task.result.producer.agent_id for task in makers if task.result is not None})
    yield ReviewLane(
        lane="work",
        owner=", ".join(names) or "worker",
        authority="edit",
        required=True,
        status="done",
        reason="a maker's word lets no gate pass",
        refs=tuple(sorted(task.task_id for task in makers)),
    )
    yield ReviewLane(
        lane="scope",
        owner="gatekeeper",
        authority="runtime",
        required=True,
        status="done",
        reason="the whole change was held against its contract and the policy",
        satisfies="integrated",
    )
    yield ReviewLane(
        lane="validation",
        owner=tests.runner.agent_id,
        authority="runtime",
        required=True,
        status="done",
        reason=f"{len(tests.commands)} commands ran on this tree",
        satisfies="tests",
        refs=(tests.task_id,),
    )


def _landing_lane() -> ReviewLane:
    return ReviewLane(
        lane="landing",
        owner="gatekeeper",
        authority="runtime",
        required=True,
        status="open",
        reason="just this tree is landed, and compared once more",
        satisfies="landing",
    )


def _opinion(review: ReviewReport) -> ReviewLane:
    asked = review.consultation
    return ReviewLane(
        lane="opinion",
        owner=asked.model if asked is not None else "model",
        authority="read_only",
        required=False,
        status="done" if asked is not None else "skipped",
        reason="a model's opinion was heard by the reviewer" if asked is not None else "the reviewer asked no model",
        refs=(review.task_id,) if asked is not None and review.task_id else (),
    )


def _tester(run: Run, wanted: ModelTester) -> ReviewLane:
    """Return the lane of the model tester: its rule exists, and the risk decides whether it is asked."""
    asked = tester_limits(run) is not None
    tier = run.routing.tier if run.routing is not None else "unknown"
    return ReviewLane(
        lane="qa",
        owner="model",
        authority="read_only",
        required=False,
        status="open" if asked else "skipped",
        reason=f"the change is of {tier} risk, and a tester is asked from {wanted.from_tier} risk on",
    )


def _people(run: Run, *, critic: bool) -> ReviewLane:
    """Return the lane of people: those of the rules about doubts, or of all other rules."""
    asking = [each.rule for each in matching_rules(run, "candidate") if (each.rule.reason == "critic") == critic]
    triggers = run.routing.critic_triggers if run.routing is not None else ()
    codes = ", ".join(trigger.code for trigger in triggers)
    if asking:
        first = "; a model is asked first" if critic and critic_limits(run) is not None else ""
        reason = f"asked because of {codes}{first}" if critic else f"asked by {', '.join(rule.name for rule in asking)}"
    elif critic:
        reason = f"no rule asks a critic about {codes}" if codes else "nothing has left a doubt"
    else:
        reason = "no rule asks a person about this change"
    owners = sorted({name for rule in asking for name in rule.approvers})
    return ReviewLane(
        lane="critic" if critic else "person",
        owner=", ".join(owners) or "person",
        authority="person",
        required=bool(asking),
        status="open" if asking else "skipped",
        reason=reason[:2000],
        satisfies="approval" if asking else None,
        refs=tuple(rule.name for rule in asking),
    )


class PathPatterns:
    """Path patterns for matching many paths: each match costs the path's length, not the number of patterns."""

    def __init__(self, patterns: Iterable[str], *, folded: bool) -> None:
        self._folded = folded
        spelled = [self._path_bytes(pattern.encode()) for pattern in patterns]
        self._endings = tuple(each[1:] for each in spelled if each.startswith(b"*"))
        self._exact = frozenset(each for each in spelled if not each.startswith(b"*") and not each.endswith(b"/"))
        self._below = tuple(each for each in spelled if each.endswith(b"/"))

    def cover(self, path: bytes) -> bool:
        """Return whether a pattern matches ``path``."""
        path = self._path_bytes(path)
        return path in self._exact or path.startswith(self._below) or path.endswith(self._endings)

    def _path_bytes(self, path: bytes) -> bytes:
        return folded_path(path).encode("utf-8", "surrogateescape") if self._folded else path
