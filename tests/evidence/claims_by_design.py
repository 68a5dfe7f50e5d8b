"""The fields of a bundle that nothing else in the bundle speaks of: claims by design, each with its reason.

Whoever has the gatekeeper's key can give them other values, and ``verify`` cannot find that. ``docs/bundle.md`` lists them for
readers of bundles.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

WORDS_OF_WORKER = "a worker's own words about its work"
WORDS_OF_REVIEWER = "a reviewer's own words about its review"
WORDS_OF_RUNNER = "what a test runner measured, or drew, on its host"
WORDS_OF_GATE = "words and rules of a gate beyond those that it always applies: its policies are not in the bundle"
HOST = "what a host says of itself"
POLICY = "what the operator's policies said, where nothing happened by it"


class Claim(NamedTuple):
    """Fields by document and by place in it; ``*`` stands for anything in both."""

    document: str
    place: str
    reason: str

    def covers(self, field: tuple[str, str]) -> bool:
        document, place = field
        return fnmatchcase(document, self.document) and fnmatchcase(place, self.place)


CLAIMS: tuple[Claim, ...] = (
    Claim("run_accepted", "/payload/submitted_sha256", "the bytes as they came are not in the bundle"),
    Claim("run_accepted", "/payload/caller_span", "the publisher's own trace"),
    Claim("run_accepted", "/payload/versions/*", HOST),
    Claim("run_accepted", "/payload/host*", HOST),
    Claim("run_accepted", "/payload/approval_rules/*", POLICY),
    Claim("run_accepted", "/payload/routing/*", POLICY),
    Claim("run_accepted", "/payload/pools*", "pools of roles that get their task by the contract's"),
    Claim("contract_compiled", "/payload/pools*", "a pool that is called default, or not named, is the same"),
    Claim("*", "*/surroundings*", HOST),
    Claim("gate_judged.*", "/payload/report/duration_ms", "how long the gate took on its host"),
    Claim("gate_judged.*", "/payload/report/rules/[*]/detail", WORDS_OF_GATE),
    Claim("gate_judged.*", "/payload/report/rules", WORDS_OF_GATE),
    Claim("gate_judged.*", "/payload/report/rules/[*]/rule", WORDS_OF_GATE),
    Claim("gate_judged.landing", "/payload/report/evidence/[*]/name", WORDS_OF_GATE),
    Claim("gate_judged.tests", "/payload/report/summary", "remarks of a gate that passed"),
    Claim("gate_judged.tests", "/payload/report/family", "the family that a version puts the code in"),
    Claim("gate_judged.tests", "/payload/report/violations", "the same violation told twice"),
    Claim("task_finished", "/payload/result/producer/*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/summary", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/artifacts*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/git/*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/gates/*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/next_steps/*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/attempts*", WORDS_OF_WORKER),
    Claim("task_finished", "/payload/result/usage", "a worker that used nothing names nothing"),
    Claim("usage_reported.reviewer", "*", "only a worker's answer says itself what was used"),
    Claim("usage_reported.worker", "*", "how use grew: a worker's answer bears out the last report of its delivery alone"),
    Claim("review_received", "/payload/report/reviewer/*", WORDS_OF_REVIEWER),
    Claim("review_received", "/payload/report/summary", WORDS_OF_REVIEWER),
    Claim("review_received", "/payload/report/evidence*", WORDS_OF_REVIEWER),
    Claim("review_received", "/payload/report/consultation/*", "what a role says of the model that it asked"),
    Claim("tests_received", "/payload/report/runner/*", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/summary", "a summary may be left out"),
    Claim("tests_received", "/payload/report/failure", "the reason of a failure, in words"),
    Claim("tests_received", "/payload/report/commands/[*]/timeout_sec", "a limit below the contract's"),
    Claim("tests_received", "/payload/report/commands/[*]/duration_sec", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/truncated", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/replay*", WORDS_OF_RUNNER),
    Claim("gate_judged.tests", "/payload/report/played", "whether results by test were recorded; no verdict depends on them"),
    Claim("tests_received", "/payload/report/commands/[*]/attempts*", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof", "what could not be shown may be left out"),
    Claim("tests_received", "/payload/report/commands/[*]/proof/version", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/unproven", "why something could not be shown, in words"),
    Claim("tests_received", "/payload/report/commands/[*]/proof/exit_before", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/collected_before", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/new_count", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/control/*", WORDS_OF_RUNNER),
    Claim("tests_received", "/payload/report/commands/[*]/proof/mutation/*", WORDS_OF_RUNNER),
    Claim("landed", "/payload/found", "whether the commit was there before: a repository tells"),
    Claim("artifact:task_finished/result/git/patch", "", "that a worker's patch leads to its tree: a repository tells"),
    Claim("artifact:task_finished/result/artifacts/[*]/uri*", "*", WORDS_OF_WORKER),
)
